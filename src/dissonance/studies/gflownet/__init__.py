"""The GFlowNet study: does a loss that is weighed by length train better policies?"""

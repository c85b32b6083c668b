"""GFlowNets: a policy that draws states in proportion to a reward, trained as the resolution of an inconsistency."""

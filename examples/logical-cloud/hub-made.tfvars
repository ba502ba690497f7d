# As in EMCO's DCM: the hub makes the key, and hands it out inside the finished
# kubeconfig.
key_policy = "HubMade"

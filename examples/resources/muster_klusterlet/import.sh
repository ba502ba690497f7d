# CLUSTER_NAME@KUBECONFIG_PATH, with #CONTEXT behind it and NAMESPACE/ before it where they differ from the defaults
terraform import muster_klusterlet.paris "paris@~/.kube/paris.kubeconfig"

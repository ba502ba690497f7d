package template

import (
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1alpha1"
)

// Variables that need no configuration.
const (
	hubKubeconfigVariable    = "HUB_KUBECONFIG"
	clusterNameVariable      = "CLUSTER_NAME"
	installNamespaceVariable = "INSTALL_NAMESPACE"
)

// hubKubeconfig is the path of the kubeconfig for the hub in the agent's containers.
const hubKubeconfig = "/managed/hub-kubeconfig/kubeconfig"

// variables are values as a configuration and containers have them, by name.
type variables map[string]string

// variables are those of an add-on in a cluster. Those of a configuration go before the
// path of the kubeconfig, and behind the names of the cluster and of the namespace.
// INSTALL_NAMESPACE is only there when the configuration has one.
func (t *Template) variables(config *v1alpha1.AddOnDeploymentConfig, clusterName string) variables {
	v := variables{}
	if t.source.Spec.Registration != nil {
		v[hubKubeconfigVariable] = hubKubeconfig
	}
	if config != nil {
		for _, variable := range config.Spec.CustomizedVariables {
			v[variable.Name] = variable.Value
		}
	}
	if clusterName != "" {
		v[clusterNameVariable] = clusterName
	}
	if forced := forcedNamespace(config); forced != "" {
		v[installNamespaceVariable] = forced
	}
	return v
}

// texts are variables as they count inside texts.
func (v variables) texts() values {
	out := make(values, len(v))
	for name, value := range v {
		out[name] = asText(value)
	}
	return out
}

package template

import (
	"cmp"
	"maps"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1alpha1"
)

// InstallNamespace is the namespace, in the managed cluster, of an add-on's agent and
// of its credentials: the agentInstallNamespace of its configuration, where there is
// one, and otherwise the namespace of the first Deployment of the template, or of its
// first DaemonSet, or open-cluster-management-agent-addon.
//
// A configuration whose agentInstallNamespace is the empty text says that the manifests
// keep their namespaces, so the Deployment's counts; one that does not have the field
// at all has its default, open-cluster-management-agent-addon. config is nil where the
// add-on has no configuration. The name of the cluster counts where the Deployment's
// namespace is {{CLUSTER_NAME}}. Manifests that can't be read are skipped.
//
// It is the same as Result.Namespace, and needs no Render.
func InstallNamespace(template *v1alpha1.AddOnTemplate, config *v1alpha1.AddOnDeploymentConfig, clusterName string) string {
	if forced := forcedNamespace(config); forced != "" {
		return forced
	}
	t, _ := parse(template)
	return t.InstallNamespace(config, clusterName)
}

// InstallNamespace is the function of this name, for a template that has been parsed.
func (t *Template) InstallNamespace(config *v1alpha1.AddOnDeploymentConfig, clusterName string) string {
	if forced := forcedNamespace(config); forced != "" {
		return forced
	}
	return t.ownNamespace(t.variables(config, clusterName).texts())
}

// forcedNamespace is the namespace that all objects of an add-on are put into, and ""
// where they keep theirs.
func forcedNamespace(config *v1alpha1.AddOnDeploymentConfig) string {
	switch {
	case config == nil:
		return ""
	case config.Spec.AgentInstallNamespace == nil:
		return addon.DefaultInstallNamespace
	default:
		return *config.Spec.AgentInstallNamespace
	}
}

// ownNamespace is the namespace of the agent by the template's own manifests. A
// namespace {{INSTALL_NAMESPACE}} that nothing gives is the default.
func (t *Template) ownNamespace(v values) string {
	if v[installNamespaceVariable] == "" {
		v = maps.Clone(v)
		v[installNamespaceVariable] = addon.DefaultInstallNamespace
	}
	first := map[string]string{}
	for _, m := range t.manifests {
		kind := m.kind(v)
		if kind != deployment && kind != daemonSet {
			continue
		}
		namespace := stringIn(fieldsOf(m.tree["metadata"])["namespace"], v)
		if first[kind] == "" && len(validation.IsDNS1123Label(namespace)) == 0 {
			first[kind] = namespace
		}
	}
	return cmp.Or(first[deployment], first[daemonSet], addon.DefaultInstallNamespace)
}

// Kinds of the group apps whose pods are changed.
const (
	deployment = "Deployment"
	daemonSet  = "DaemonSet"
)

// kind is the kind of a manifest of the group apps, and "" of others.
func (m manifest) kind(v values) string {
	if strings.HasPrefix(stringIn(m.tree["apiVersion"], v), "apps/") {
		return stringIn(m.tree["kind"], v)
	}
	return ""
}

// fieldsOf are the fields of an object in a tree whose names have no placeholders.
func fieldsOf(tree any) map[string]any {
	switch x := tree.(type) {
	case map[string]any:
		return x
	case patterned:
		return x.fields
	}
	return nil
}

// stringIn is a text of a tree with values for its placeholders, and "" of what is no
// text.
func stringIn(tree any, v values) string {
	switch x := tree.(type) {
	case string:
		return x
	case text:
		return x.in(v)
	}
	return ""
}

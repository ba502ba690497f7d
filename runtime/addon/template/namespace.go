package template

import (
	"cmp"
	"maps"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
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
		kind := stringIn(m.tree["kind"], v)
		if resourceOf(stringIn(m.tree["apiVersion"], v), kind) == "" {
			continue
		}
		namespace := stringIn(fieldsOf(m.tree["metadata"])["namespace"], v)
		if first[kind] == "" && len(validation.IsDNS1123Label(namespace)) == 0 {
			first[kind] = namespace
		}
	}
	return cmp.Or(first["Deployment"], first["DaemonSet"], addon.DefaultInstallNamespace)
}

// moveTo puts an object into a namespace: one that has a namespace, a Namespace itself,
// and the service accounts that a binding names. Objects without a namespace stay, as
// nobody knows here whether their kind has one.
func moveTo(o *unstructured.Unstructured, namespace string) error {
	if o.GetNamespace() != "" {
		o.SetNamespace(namespace)
	}
	if isNamespace(o) {
		o.SetName(namespace)
	}
	if kind := o.GetKind(); kind != "RoleBinding" && kind != "ClusterRoleBinding" {
		return nil
	}
	subjects, err := objectsIn(o.Object, "", "subjects")
	for _, subject := range subjects {
		if kind := subject["kind"]; kind != "User" && kind != "Group" {
			subject["namespace"] = namespace
		}
	}
	return err
}

func isNamespace(o *unstructured.Unstructured) bool {
	return o.GetKind() == "Namespace" && o.GetAPIVersion() == "v1"
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
	case markedText:
		if x.size(v) <= maxIdentity {
			return x.in(v)
		}
	}
	return ""
}

// maxIdentity is how long an apiVersion, a kind or a namespace may be to be looked at, in
// bytes: those of Kubernetes have 253 at most. Longer ones are refused where they are
// made.
const maxIdentity = 1024

package admission

import (
	"context"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// Who may not create works in a cluster can't have an add-on hosted there.
func TestHosting(t *testing.T) {
	p := hostings{server: &server{}}
	p.SetAuthorizer(authorizer.AuthorizerFunc(func(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
		if a.GetVerb() == "create" && a.GetResource() == "manifestworks" && a.GetAPIGroup() == "work.open-cluster-management.io" && a.GetNamespace() == "mine" {
			return authorizer.DecisionAllow, "", nil
		}
		return authorizer.DecisionNoOpinion, "", nil
	}))
	object := func(host, spec string) *unstructured.Unstructured {
		o := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "addon.open-cluster-management.io/v1alpha1", "kind": "ManagedClusterAddOn", "spec": map[string]any{"x": spec},
		}}
		if host != "" {
			o.SetAnnotations(map[string]string{"addon.open-cluster-management.io/hosting-cluster-name": host})
		}
		return o
	}
	// with is a hosted add-on in one version, with an annotation and an install namespace.
	with := func(version, key, value, namespace string) *unstructured.Unstructured {
		o := object("other", "")
		o.Object = map[string]any{"apiVersion": "addon.open-cluster-management.io/" + version, "kind": "ManagedClusterAddOn", "metadata": o.Object["metadata"], "spec": map[string]any{}}
		if namespace != "" {
			o.Object["spec"] = map[string]any{"installNamespace": namespace}
		}
		annotations := o.GetAnnotations()
		annotations[key] = value
		o.SetAnnotations(annotations)
		return o
	}
	const values, namespace = "addon.open-cluster-management.io/values", "addon.open-cluster-management.io/v1alpha1-install-namespace"
	addOns := schema.GroupVersionResource{Group: "addon.open-cluster-management.io", Version: "v1beta1", Resource: "managedclusteraddons"}
	clusters := schema.GroupVersionResource{Group: "cluster.open-cluster-management.io", Version: "v1", Resource: "managedclusters"}
	for name, x := range map[string]struct {
		resource    schema.GroupVersionResource
		subresource string
		now, before *unstructured.Unstructured
		refused     bool
	}{
		"none":                           {addOns, "", object("", ""), nil, false},
		"one's own":                      {addOns, "", object("mine", ""), nil, false},
		"another's":                      {addOns, "", object("other", ""), nil, true},
		"a system namespace":             {addOns, "", object("kube-system", ""), nil, true},
		"changed to another's":           {addOns, "", object("other", ""), object("mine", ""), true},
		"removed":                        {addOns, "", object("", ""), object("other", ""), false},
		"as before":                      {addOns, "", object("other", "a"), object("other", "a"), false},
		"another configuration":          {addOns, "", object("other", "b"), object("other", "a"), true},
		"another configuration, of one":  {addOns, "", object("mine", "b"), object("mine", "a"), false},
		"the status":                     {addOns, "status", object("other", "b"), object("mine", "a"), false},
		"another namespace, in v1beta1":  {addOns, "", with("v1beta1", namespace, "b", ""), with("v1beta1", namespace, "a", ""), true},
		"another namespace, in v1alpha1": {addOns, "", with("v1alpha1", "x", "", "b"), with("v1alpha1", "x", "", "a"), true},
		"a namespace, in both versions":  {addOns, "", with("v1beta1", namespace, "a", ""), with("v1alpha1", "x", "", "a"), false},
		"other values":                   {addOns, "", with("v1beta1", values, "{}", ""), with("v1beta1", "x", "", ""), true},
		"other values, in v1alpha1":      {addOns, "", with("v1alpha1", values, "{}", ""), with("v1alpha1", "x", "", ""), true},
		"an annotation of somebody":      {addOns, "", with("v1beta1", "x", "b", ""), with("v1beta1", "x", "a", ""), false},
		"values of a cluster":            {clusters, "", with("v1", values, "{}", ""), with("v1", "x", "", ""), true},
		"of a cluster":                   {clusters, "", object("other", ""), nil, true},
		"of a cluster, as before":        {clusters, "", object("other", "b"), object("other", "a"), false},
		"of a cluster, changed":          {clusters, "", object("other", ""), object("", ""), true},
		"of something else":              {schema.GroupVersionResource{Resource: "configmaps"}, "", object("other", ""), nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			op := admission.Create
			var before runtime.Object
			if x.before != nil {
				op, before = admission.Update, x.before
			}
			a := admission.NewAttributesRecord(x.now, before, schema.GroupVersionKind{}, "c1", "search", x.resource, x.subresource, op, nil, false, &user.DefaultInfo{Name: "tenant"})
			err := p.Validate(context.Background(), a, nil)
			if (err != nil) != x.refused {
				t.Fatalf("got %v, want refused: %v", err, x.refused)
			}
			if err != nil && !strings.Contains(err.Error(), `user "tenant" may not create manifestworks in the namespace of that cluster, where the add-on's works would be; leave the annotation out`) {
				t.Error(err)
			}
		})
	}
}

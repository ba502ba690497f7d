package hub_test

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub"
)

// addOnClient reads and writes one kind of add-ons in one version, as a client
// that knows nothing of any other.
type addOnClient struct {
	testing.TB
	dynamic.ResourceInterface
	version, kind string
}

// inBothVersions are clients of one kind, in v1alpha1 and v1beta1. A namespace is
// for the kinds that have one.
func inBothVersions(t testing.TB, config *rest.Config, resource, kind, namespace string) (older, newer addOnClient) {
	t.Helper()
	objects, err := dynamic.NewForConfig(config)
	testkit.Must(t, err)
	of := func(version string) addOnClient {
		r := objects.Resource(schema.GroupVersionResource{Group: addOnsGroup, Version: version, Resource: resource})
		c := addOnClient{TB: t, ResourceInterface: r, version: version, kind: kind}
		if namespace != "" {
			c.ResourceInterface = r.Namespace(namespace)
		}
		return c
	}
	return of("v1alpha1"), of("v1beta1")
}

// object is an object of the client's version, given as JSON without its head.
func (c addOnClient) object(name, body string) *unstructured.Unstructured {
	c.Helper()
	o := &unstructured.Unstructured{}
	testkit.Must(c, json.Unmarshal([]byte(body), &o.Object))
	o.SetAPIVersion(addOnsGroup + "/" + c.version)
	o.SetKind(c.kind)
	o.SetName(name)
	return o
}

func (c addOnClient) create(name, body string) {
	c.Helper()
	_, err := c.Create(context.Background(), c.object(name, body), metav1.CreateOptions{})
	testkit.Must(c, err)
	c.Cleanup(func() { _ = c.Delete(context.Background(), name, metav1.DeleteOptions{}) })
}

// patch is a merge patch of the object, or of a subresource.
func (c addOnClient) patch(name, body string, subresource ...string) {
	c.Helper()
	_, err := c.Patch(context.Background(), name, types.MergePatchType, []byte(body), metav1.PatchOptions{FieldManager: "test-" + c.version}, subresource...)
	testkit.Must(c, err)
}

func (c addOnClient) apply(name, manager, body string) error {
	c.Helper()
	_, err := c.Apply(context.Background(), name, c.object(name, body), metav1.ApplyOptions{FieldManager: manager})
	return err
}

// says fails unless the fields of the object that want names are what it says. A
// field that is null in want must not be there.
func (c addOnClient) says(name, want string) {
	c.Helper()
	o, err := c.Get(context.Background(), name, metav1.GetOptions{})
	testkit.Must(c, err)
	var w map[string]any
	testkit.Must(c, json.Unmarshal([]byte(want), &w))
	if where := differs("", plain(c, o.Object), w); where != "" {
		have, _ := json.Marshal(o.Object)
		c.Errorf("%s in %s: %s; it is\n%s", name, c.version, where, have)
	}
}

// plain is the object as json.Unmarshal reads it.
func plain(t testing.TB, o map[string]any) map[string]any {
	data, err := json.Marshal(o)
	testkit.Must(t, err)
	var out map[string]any
	testkit.Must(t, json.Unmarshal(data, &out))
	return out
}

func differs(path string, have, want any) string {
	w, ok := want.(map[string]any)
	if !ok {
		if !reflect.DeepEqual(have, want) {
			return fmt.Sprintf("%s is %v, want %v", path, have, want)
		}
		return ""
	}
	h, _ := have.(map[string]any)
	for k := range w {
		if d := differs(path+"."+k, h[k], w[k]); d != "" {
			return d
		}
	}
	return ""
}

const reported = `{"type":"Available","status":"True","reason":"ManagedClusterAddOnLeaseUpdated","message":"","lastTransitionTime":"2026-01-01T00:00:00Z"}`

func TestDefinitionsOfAddOnsInBothVersions(t *testing.T) {
	older, newer := inBothVersions(t, admin, "clustermanagementaddons", "ClusterManagementAddOn", "")
	name := clusterName(t, "cma")

	// It manages itself, so that the hub leaves its status alone.
	newer.create(name, `{"metadata":{"annotations":{"addon.open-cluster-management.io/lifecycle":""}},"spec":{"addOnMeta":{"displayName":"Search"},"defaultConfigs":[
		{"group":"example.com","resource":"configs","namespace":"ns","name":"default"},
		{"group":"example.com","resource":"others","name":"__reserved_no_default__"}]}}`)
	newer.says(name, `{"spec":{"addOnMeta":{"displayName":"Search"},"installStrategy":{"type":"Manual"},"defaultConfigs":[
		{"group":"example.com","resource":"configs","namespace":"ns","name":"default"},
		{"group":"example.com","resource":"others","name":"__reserved_no_default__"}]}}`)
	older.says(name, `{"spec":{"addOnMeta":{"displayName":"Search"},"defaultConfigs":null,"supportedConfigs":[
		{"group":"example.com","resource":"configs","defaultConfig":{"namespace":"ns","name":"default"}},
		{"group":"example.com","resource":"others"}]}}`)

	// Each writes what the other reads.
	older.patch(name, `{"spec":{"addOnConfiguration":{"crdName":"configs.example.com","crName":"old"}},"metadata":{"annotations":{"a":"b"}}}`)
	newer.patch(name, `{"status":{"defaultConfigReferences":[{"group":"example.com","resource":"configs","desiredConfig":{"namespace":"ns","name":"default","specHash":"h"}}],
		"installProgressions":[{"namespace":"p","name":"all","conditions":[`+reported+`]}]}}`, "status")
	newer.patch(name, `{"metadata":{"annotations":{"addon.open-cluster-management.io/lifecycle":"self"}}}`)
	older.says(name, `{
		"metadata":{"annotations":{"a":"b","addon.open-cluster-management.io/lifecycle":"self","muster-fleet.io/v1alpha1-fields":null}},
		"spec":{"addOnConfiguration":{"crdName":"configs.example.com","crName":"old"}},
		"status":{"defaultConfigReferences":null,"defaultconfigReferences":[{"group":"example.com","resource":"configs","desiredConfig":{"namespace":"ns","name":"default","specHash":"h"}}],
			"installProgressions":[{"namespace":"p","name":"all","conditions":[`+reported+`]}]}}`)

	// A typed client of v1beta1 puts back what it has read, annotations included.
	o, err := newer.Get(t.Context(), name, metav1.GetOptions{})
	testkit.Must(t, err)
	testkit.Must(t, unstructured.SetNestedField(o.Object, "Find", "spec", "addOnMeta", "displayName"))
	_, err = newer.Update(t.Context(), o, metav1.UpdateOptions{})
	testkit.Must(t, err)
	older.says(name, `{"spec":{"addOnMeta":{"displayName":"Find"},"addOnConfiguration":{"crdName":"configs.example.com","crName":"old"}}}`)
}

func TestAddOnsInBothVersions(t *testing.T) {
	name := clusterName(t, "mca")
	acceptedCluster(t, clientFor(t, admin), name)
	older, newer := inBothVersions(t, admin, "managedclusteraddons", "ManagedClusterAddOn", name)

	t.Run("what a manager of v1alpha1 wrote survives a client of v1beta1", func(t *testing.T) {
		older.create("kept", `{"spec":{"installNamespace":"my-ns","configs":[{"group":"g","resource":"rs","name":"c"}]}}`)
		const status = `{"registrations":[
				{"signerName":"kubernetes.io/kube-apiserver-client","subject":{"user":"u","groups":["g"],"organizationUnit":["o"]}},
				{"signerName":"example.com/signer","subject":{"user":"v","organizationUnit":["p"]}}],
			"kubeClientDriver":"csr","namespace":"my-ns","healthCheck":{"mode":"Customized"},
			"addOnMeta":{"displayName":"A"},"addOnConfiguration":{"crdName":"a","crName":"b","lastObservedGeneration":4},
			"relatedObjects":[{"group":"","resource":"secrets","namespace":"x","name":"y"}],
			"supportedConfigs":[{"group":"g","resource":"rs"}],
			"configReferences":[
				{"group":"g","resource":"rs","name":"old","lastObservedGeneration":2},
				{"group":"g","resource":"rs","name":"c","lastObservedGeneration":3,"desiredConfig":{"name":"c","specHash":"h"},"lastAppliedConfig":{"name":"c","specHash":"g"}}]}`
		older.patch("kept", `{"status":`+status+`}`, "status")
		before, err := older.Get(t.Context(), "kept", metav1.GetOptions{})
		testkit.Must(t, err)

		newer.patch("kept", `{"metadata":{"annotations":{"x":"y"}}}`)
		newer.patch("kept", `{"status":{"conditions":[`+reported+`]}}`, "status")
		after, err := older.Get(t.Context(), "kept", metav1.GetOptions{})
		testkit.Must(t, err)
		if got, want := after.Object["spec"], before.Object["spec"]; !reflect.DeepEqual(got, want) {
			t.Errorf("the spec was %v and is %v", want, got)
		}
		got, want := after.Object["status"].(map[string]any), before.Object["status"].(map[string]any)
		if c, _ := json.Marshal(got["conditions"]); string(c) != "["+sorted(t, reported)+"]" {
			t.Errorf("the conditions are %s", c)
		}
		delete(got, "conditions")
		if !reflect.DeepEqual(got, want) {
			t.Errorf("the status was %v and is %v", want, got)
		}
		if got := after.GetAnnotations(); !reflect.DeepEqual(got, map[string]string{"x": "y"}) {
			t.Errorf("the annotations are %v", got)
		}
		newer.says("kept", `{"metadata":{"annotations":{"x":"y","`+addon.InstallNamespaceAnnotation+`":"my-ns"}},"spec":{"installNamespace":null},"status":{"registrations":[
			{"type":"kubeClient","kubeClient":{"subject":{"user":"u","groups":["g"]},"driver":"csr"}},
			{"type":"customSigner","customSigner":{"signerName":"example.com/signer","subject":{"user":"v","organizationUnits":["p"]}}}]}}`)
	})

	t.Run("what a manager of v1beta1 wrote reads the same in both", func(t *testing.T) {
		newer.create("made", `{"spec":{}}`)
		newer.says("made", `{"metadata":{"annotations":{"`+addon.InstallNamespaceAnnotation+`":"open-cluster-management-agent-addon"}}}`)
		const registrations = `[{"type":"kubeClient","kubeClient":{"subject":{"user":"u","groups":["g"]}}},{"type":"customSigner","customSigner":{"signerName":"example.com/signer"}}]`
		newer.patch("made", `{"metadata":{"annotations":{"`+addon.InstallNamespaceAnnotation+`":"other"}}}`)
		newer.patch("made", `{"status":{"registrations":`+registrations+`}}`, "status")
		newer.says("made", `{"status":{"registrations":`+registrations+`}}`)
		older.says("made", `{"metadata":{"annotations":null},"spec":{"installNamespace":"other"},"status":{"registrations":[
			{"signerName":"kubernetes.io/kube-apiserver-client","subject":{"user":"u","groups":["g"]}},{"signerName":"example.com/signer"}]}}`)
		newer.patch("made", `{"metadata":{"annotations":{"`+addon.InstallNamespaceAnnotation+`":null}}}`)
		older.says("made", `{"spec":{"installNamespace":"open-cluster-management-agent-addon"}}`)
	})

	t.Run("a write that changes nothing is none", func(t *testing.T) {
		newer.create("same", `{"spec":{}}`)
		newer.patch("same", `{"status":{"conditions":[`+reported+`]}}`, "status")
		before, err := newer.Get(t.Context(), "same", metav1.GetOptions{})
		testkit.Must(t, err)
		newer.patch("same", `{"status":{"conditions":[`+reported+`]}}`, "status")
		newer.patch("same", `{"metadata":{"annotations":{"`+addon.InstallNamespaceAnnotation+`":"open-cluster-management-agent-addon"}}}`)
		after, err := newer.Get(t.Context(), "same", metav1.GetOptions{})
		testkit.Must(t, err)
		if before.GetResourceVersion() != after.GetResourceVersion() {
			t.Errorf("the object went from\n%v\nto\n%v", before.Object, after.Object)
		}
	})

	t.Run("who applies in one version meets who applies in the other", func(t *testing.T) {
		testkit.Must(t, newer.apply("applied", "newer", `{"metadata":{"annotations":{"`+addon.InstallNamespaceAnnotation+`":"mine"}},"spec":{"configs":[{"group":"g","resource":"rs","name":"c"}]}}`))
		t.Cleanup(func() { _ = newer.Delete(context.Background(), "applied", metav1.DeleteOptions{}) })
		older.says("applied", `{"spec":{"installNamespace":"mine","configs":[{"group":"g","resource":"rs","name":"c"}]}}`)
		if err := older.apply("applied", "older", `{"spec":{"configs":[{"group":"g","resource":"rs","name":"other"}]}}`); !apierrors.IsConflict(err) {
			t.Errorf("two owners of one field: %v", err)
		}
		testkit.Must(t, older.apply("applied", "older", `{"metadata":{"labels":{"by":"older"}},"spec":{"configs":[{"group":"g","resource":"rs","name":"c"}]}}`))
		// One stops to want it, the other still does.
		testkit.Must(t, newer.apply("applied", "newer", `{"metadata":{"labels":{"also":"newer"}}}`))
		newer.says("applied", `{"metadata":{"labels":{"by":"older","also":"newer"}},"spec":{"configs":[{"group":"g","resource":"rs","name":"c"}]}}`)
		testkit.Must(t, older.apply("applied", "older", `{"spec":{}}`))
		newer.says("applied", `{"metadata":{"labels":{"by":null,"also":"newer"}},"spec":{"configs":null}}`)
		o, err := newer.Get(t.Context(), "applied", metav1.GetOptions{})
		testkit.Must(t, err)
		owners := map[string]string{}
		for _, m := range o.GetManagedFields() {
			owners[m.Manager] = m.APIVersion
		}
		if want := (map[string]string{"newer": addOnsGroup + "/v1beta1", "older": addOnsGroup + "/v1alpha1"}); !reflect.DeepEqual(owners, want) {
			t.Errorf("the owners are %v, want %v", owners, want)
		}
	})

	t.Run("the owners of fields are kept when another version is written", func(t *testing.T) {
		older.create("owned", `{"spec":{"installNamespace":"my-ns"}}`)
		older.patch("owned", `{"status":{"registrations":[{"signerName":"kubernetes.io/kube-apiserver-client"}]}}`, "status")
		newer.patch("owned", `{"status":{"conditions":[`+reported+`]}}`, "status")
		older.patch("owned", `{"metadata":{"labels":{"a":"b"}}}`)
		o, err := older.Get(t.Context(), "owned", metav1.GetOptions{})
		testkit.Must(t, err)
		var owners []string
		for _, m := range o.GetManagedFields() {
			owners = append(owners, m.Manager+" "+m.Subresource)
		}
		for _, want := range []string{"test-v1alpha1 status", "test-v1beta1 status", "test-v1alpha1 "} {
			if !slices.Contains(owners, want) {
				t.Errorf("the owners are %q, which lacks %q", owners, want)
			}
		}
	})

	t.Run("lists and watches", func(t *testing.T) {
		for _, c := range []addOnClient{older, newer} {
			list, err := c.List(t.Context(), metav1.ListOptions{})
			testkit.Must(t, err)
			if len(list.Items) != 4 || list.GetAPIVersion() != addOnsGroup+"/"+c.version {
				t.Errorf("%s: %d items in %s, want 4", c.version, len(list.Items), list.GetAPIVersion())
			}
			for _, o := range list.Items {
				if o.GetAPIVersion() != addOnsGroup+"/"+c.version {
					t.Errorf("%s: an item in %s", c.version, o.GetAPIVersion())
				}
			}
			w, err := c.Watch(t.Context(), metav1.ListOptions{ResourceVersion: list.GetResourceVersion()})
			testkit.Must(t, err)
			t.Cleanup(w.Stop)
			value := "by-" + c.version
			newer.patch("made", `{"status":{"registrations":[{"type":"kubeClient","kubeClient":{"subject":{"user":"`+value+`"}}}]}}`, "status")
			e, ok := <-w.ResultChan()
			if !ok {
				t.Fatalf("%s: the watch ended", c.version)
			}
			o, ok := e.Object.(*unstructured.Unstructured)
			if !ok || o.GetName() != "made" {
				t.Fatalf("%s: the watch saw %+v", c.version, e.Object)
			}
			got := plain(t, o.Object)
			want := map[string]string{
				"v1alpha1": `{"status":{"registrations":[{"signerName":"kubernetes.io/kube-apiserver-client","subject":{"user":"` + value + `"}}]}}`,
				"v1beta1":  `{"status":{"registrations":[{"type":"kubeClient","kubeClient":{"subject":{"user":"` + value + `"}}}]}}`,
			}[c.version]
			var w2 map[string]any
			testkit.Must(t, json.Unmarshal([]byte(want), &w2))
			if where := differs("", got, w2); where != "" {
				t.Errorf("%s: the watch saw that %s", c.version, where)
			}
		}
	})
}

func sorted(t testing.TB, object string) string {
	t.Helper()
	var o map[string]any
	testkit.Must(t, json.Unmarshal([]byte(object), &o))
	data, err := json.Marshal(o)
	testkit.Must(t, err)
	return string(data)
}

// Templates have one shape in both versions.
func TestAddOnTemplatesInBothVersions(t *testing.T) {
	older, newer := inBothVersions(t, admin, "addontemplates", "AddOnTemplate", "")
	name := clusterName(t, "template")
	const body = `{"spec":{"addonName":"x","agentSpec":{"workload":{"manifests":[{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","namespace":"b"}}]}},
		"registration":[{"type":"CustomSigner","customSigner":{"signerName":"example.com/signer","signingCA":{"name":"ca"}}}]}}`
	newer.create(name, body)
	newer.says(name, body)
	older.says(name, body)
}

// A hub from before the conversion left definitions without it, and objects.
func TestAddOnsOfAnOlderHubAreConverted(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "hub")
	ready, stop, err := start(hub.Options{DataDir: dir})
	testkit.Must(t, err)
	config, err := clientcmd.BuildConfigFromFlags("", ready.Kubeconfig)
	testkit.Must(t, err)
	crds := func(config *rest.Config) apiextensions.Interface {
		c, err := apiextensions.NewForConfig(config)
		testkit.Must(t, err)
		return c
	}
	const definition = "managedclusteraddons.addon.open-cluster-management.io"
	_, err = crds(config).ApiextensionsV1().CustomResourceDefinitions().Patch(t.Context(), definition, types.MergePatchType,
		[]byte(`{"metadata":{"annotations":{"muster-fleet.io/definition-hash":"of-before"}},"spec":{"conversion":{"strategy":"None","webhook":null}}}`), metav1.PatchOptions{})
	testkit.Must(t, err)
	const theirs = `{"strategy":"Webhook","webhook":{"conversionReviewVersions":["v1"],"clientConfig":{"service":{"namespace":"open-cluster-management-hub","name":"cluster-manager-addon-webhook","path":"/convert","port":9443}}}}`
	_, err = crds(config).ApiextensionsV1().CustomResourceDefinitions().Patch(t.Context(), "clustermanagementaddons.addon.open-cluster-management.io", types.MergePatchType,
		[]byte(`{"metadata":{"annotations":{"muster-fleet.io/definition-hash":"of-before"}},"spec":{"conversion":`+theirs+`}}`), metav1.PatchOptions{})
	testkit.Must(t, err)
	older, newer := inBothVersions(t, config, "managedclusteraddons", "ManagedClusterAddOn", "default")
	testkit.Eventually(t, func() error { // with the definition of before
		_, err := newer.Get(t.Context(), "none", metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return err
	})
	older.create("old", `{"spec":{"installNamespace":"my-ns"}}`)
	older.patch("old", `{"status":{"registrations":[{"signerName":"kubernetes.io/kube-apiserver-client","subject":{"user":"u"}}]}}`, "status")
	testkit.Must(t, stop())

	ready, stop, err = start(hub.Options{DataDir: dir})
	testkit.Must(t, err)
	defer func() { testkit.Must(t, stop()) }()
	config, err = clientcmd.BuildConfigFromFlags("", ready.Kubeconfig)
	testkit.Must(t, err)
	crd, err := crds(config).ApiextensionsV1().CustomResourceDefinitions().Get(t.Context(), definition, metav1.GetOptions{})
	testkit.Must(t, err)
	if crd.Spec.Conversion.Strategy != apiextensionsv1.WebhookConverter || crd.Spec.Conversion.Webhook.ClientConfig.Service.Name != addon.ConversionService {
		t.Errorf("the conversion is %+v", crd.Spec.Conversion)
	}
	_, newer = inBothVersions(t, config, "managedclusteraddons", "ManagedClusterAddOn", "default")
	newer.says("old", `{"metadata":{"annotations":{"`+addon.InstallNamespaceAnnotation+`":"my-ns"}},"status":{"registrations":[{"type":"kubeClient","kubeClient":{"subject":{"user":"u"}}}]}}`)

	// The webhook that somebody has put there stays.
	crd, err = crds(config).ApiextensionsV1().CustomResourceDefinitions().Get(t.Context(), "clustermanagementaddons.addon.open-cluster-management.io", metav1.GetOptions{})
	testkit.Must(t, err)
	if name := crd.Spec.Conversion.Webhook.ClientConfig.Service.Name; name != "cluster-manager-addon-webhook" {
		t.Errorf("the service is %s", name)
	}
}

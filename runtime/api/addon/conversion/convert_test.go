package conversion_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand"
	"reflect"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/conversion"
)

const (
	v1alpha1Version = "addon.open-cluster-management.io/v1alpha1"
	v1beta1Version  = "addon.open-cluster-management.io/v1beta1"
)

// There and back, in both directions, nothing is lost that a server may hold.
func TestNothingIsLost(t *testing.T) {
	for name, make := range map[string]func(random) any{
		"ManagedClusterAddOn from v1alpha1":    func(r random) any { return r.managedV1alpha1() },
		"ManagedClusterAddOn from v1beta1":     func(r random) any { return r.managedV1beta1() },
		"ClusterManagementAddOn from v1alpha1": func(r random) any { return r.definitionV1alpha1() },
		"ClusterManagementAddOn from v1beta1":  func(r random) any { return r.definitionV1beta1() },
	} {
		t.Run(name, func(t *testing.T) {
			there, back := v1beta1Version, v1alpha1Version
			if strings.HasSuffix(name, "v1beta1") {
				there, back = back, there
			}
			for seed := range int64(2000) {
				object := make(random{rand.New(rand.NewSource(seed))})
				before, err := json.Marshal(object)
				testkit.Must(t, err)
				converted := convert(t, before, there)
				if again := convert(t, before, there); !bytes.Equal(again, converted) {
					t.Fatalf("seed %d: one object, two conversions:\n%s\n%s", seed, converted, again)
				}
				after := reflect.New(reflect.TypeOf(object).Elem()).Interface()
				testkit.Must(t, json.Unmarshal(convert(t, converted, back), after))
				if !equality.Semantic.DeepEqual(object, after) {
					got, err := json.Marshal(after)
					testkit.Must(t, err)
					t.Fatalf("seed %d:\nbefore    %s\nconverted %s\nafter     %s", seed, before, converted, got)
				}
			}
		})
	}
}

// Each row is an object in v1alpha1 and the same in v1beta1.
func TestConversions(t *testing.T) {
	for name, x := range map[string]struct {
		kind, v1alpha1, v1beta1 string
		only                    string // the direction, when the other one loses something
	}{
		"supported configurations": {
			kind:     "ClusterManagementAddOn",
			v1alpha1: `"spec":{"supportedConfigs":[{"group":"g","resource":"rs","defaultConfig":{"namespace":"ns","name":"n"}},{"group":"","resource":"xs"}]}`,
			v1beta1:  `"spec":{"defaultConfigs":[{"group":"g","resource":"rs","namespace":"ns","name":"n"},{"group":"","resource":"xs","name":"__reserved_no_default__"}]}`,
		},
		"a reserved name with a namespace": {
			kind:     "ClusterManagementAddOn",
			v1beta1:  `"spec":{"defaultConfigs":[{"group":"g","resource":"rs","namespace":"ns","name":"__reserved_no_default__"}]}`,
			v1alpha1: `"spec":{"supportedConfigs":[{"group":"g","resource":"rs"}]}`,
			only:     v1alpha1Version,
		},
		"a default without a name": {
			kind:     "ClusterManagementAddOn",
			v1beta1:  `"spec":{"defaultConfigs":[{"group":"g","resource":"rs","namespace":"ns","name":""}]}`,
			v1alpha1: `"spec":{"supportedConfigs":[{"group":"g","resource":"rs"}]}`,
			only:     v1alpha1Version,
		},
		"the references differ in a letter's case": {
			kind:     "ClusterManagementAddOn",
			v1alpha1: `"spec":{},"status":{"defaultconfigReferences":[{"group":"g","resource":"rs","desiredConfig":{"name":"n","specHash":"h"}}]}`,
			v1beta1:  `"spec":{},"status":{"defaultConfigReferences":[{"group":"g","resource":"rs","desiredConfig":{"name":"n","specHash":"h"}}]}`,
		},
		"the other version's spelling is not read": {
			kind:     "ClusterManagementAddOn",
			v1beta1:  `"spec":{},"status":{"defaultconfigReferences":[{"group":"g","resource":"rs"}]}`,
			v1alpha1: `"spec":{}`,
			only:     v1alpha1Version,
		},
		"the old coordinates of a configuration": {
			kind:     "ClusterManagementAddOn",
			v1alpha1: `"spec":{"addOnConfiguration":{"crdName":"a.example.com","crName":"b"}}`,
			v1beta1:  `"metadata":{"annotations":{"muster-fleet.io/v1alpha1-fields":"{\"addOnConfiguration\":{\"crdName\":\"a.example.com\",\"crName\":\"b\"}}"}},"spec":{}`,
		},
		"an annotation that is not ours to read": {
			kind:     "ClusterManagementAddOn",
			v1beta1:  `"metadata":{"annotations":{"muster-fleet.io/v1alpha1-fields":"{[","a":"b"}},"spec":{}`,
			v1alpha1: `"metadata":{"annotations":{"a":"b"}},"spec":{}`,
			only:     v1alpha1Version,
		},
		"the install namespace": {
			kind:     "ManagedClusterAddOn",
			v1alpha1: `"metadata":{"annotations":{"a":"b"}},"spec":{"installNamespace":"my-ns"}`,
			v1beta1:  `"metadata":{"annotations":{"a":"b","addon.open-cluster-management.io/v1alpha1-install-namespace":"my-ns"}},"spec":{}`,
		},
		"the field wins over the annotation": {
			kind:     "ManagedClusterAddOn",
			v1alpha1: `"metadata":{"annotations":{"addon.open-cluster-management.io/v1alpha1-install-namespace":"other"}},"spec":{"installNamespace":"my-ns"}`,
			v1beta1:  `"metadata":{"annotations":{"addon.open-cluster-management.io/v1alpha1-install-namespace":"my-ns"}},"spec":{}`,
			only:     v1beta1Version,
		},
		"an empty install namespace": {
			kind:     "ManagedClusterAddOn",
			v1beta1:  `"metadata":{"annotations":{"addon.open-cluster-management.io/v1alpha1-install-namespace":""}},"spec":{}`,
			v1alpha1: `"spec":{}`,
			only:     v1alpha1Version,
		},
		"an annotation where the field is empty": {
			kind:     "ManagedClusterAddOn",
			v1alpha1: `"metadata":{"annotations":{"addon.open-cluster-management.io/v1alpha1-install-namespace":"my-ns"}},"spec":{}`,
			v1beta1:  `"metadata":{"annotations":{"addon.open-cluster-management.io/v1alpha1-install-namespace":"my-ns"}},"spec":{}`,
			only:     v1beta1Version,
		},
		"an annotation that the field would not take": {
			kind:     "ManagedClusterAddOn",
			v1beta1:  `"metadata":{"annotations":{"addon.open-cluster-management.io/v1alpha1-install-namespace":"Not/A.Label"}},"spec":{}`,
			v1alpha1: `"spec":{"installNamespace":"Not/A.Label"}`,
		},
		"lists without entries": {
			kind:     "ManagedClusterAddOn",
			v1beta1:  `"spec":{"configs":[]},"status":{"configReferences":[],"registrations":[]}`,
			v1alpha1: `"spec":{},"status":{}`,
			only:     v1alpha1Version,
		},
		"configurations without content": {
			kind:     "ManagedClusterAddOn",
			v1alpha1: `"spec":{},"status":{"configReferences":[{"group":"g","resource":"rs","name":"n","desiredConfig":{"name":"n"}},{"group":"g","resource":"rs","name":"m","desiredConfig":{"name":"m"},"lastAppliedConfig":{"name":"l","specHash":"h"}}]}`,
			v1beta1:  `"spec":{},"status":{"configReferences":[{"group":"g","resource":"rs","desiredConfig":{"name":"n"}},{"group":"g","resource":"rs","desiredConfig":{"name":"m"},"lastAppliedConfig":{"name":"l","specHash":"h"}}]}`,
		},
		"a registration of a type that is not known": {
			kind:     "ManagedClusterAddOn",
			v1beta1:  `"spec":{},"status":{"registrations":[{"type":"spiffe"}]}`,
			v1alpha1: `"spec":{},"status":{"registrations":[{"signerName":""}]}`,
			only:     v1alpha1Version,
		},
		"a registration without a signer": {
			kind:     "ManagedClusterAddOn",
			v1alpha1: `"spec":{},"status":{"registrations":[{"signerName":""}]}`,
			v1beta1:  `"spec":{},"status":{"registrations":[{"type":"customSigner","customSigner":{"signerName":""}}]}`,
			only:     v1beta1Version,
		},
		"units of who asks for the hub's API": {
			kind:     "ManagedClusterAddOn",
			v1alpha1: `"spec":{},"status":{"registrations":[{"signerName":"kubernetes.io/kube-apiserver-client","subject":{"user":"u","organizationUnit":["o"]}}]}`,
			v1beta1: `"metadata":{"annotations":{"muster-fleet.io/v1alpha1-fields":"{\"organizationUnits\":[{\"index\":0,\"user\":\"u\",\"units\":[\"o\"]}]}"}},
				"spec":{},"status":{"registrations":[{"type":"kubeClient","kubeClient":{"subject":{"user":"u"}}}]}`,
		},
		"registrations": {
			kind: "ManagedClusterAddOn",
			v1alpha1: `"spec":{},"status":{"kubeClientDriver":"token","registrations":[
				{"signerName":"kubernetes.io/kube-apiserver-client","subject":{"user":"u","groups":["g"]}},
				{"signerName":"example.com/s","subject":{"user":"v","groups":["h"],"organizationUnit":["o"]}},
				{"signerName":"kubernetes.io/kube-apiserver-client"}]}`,
			v1beta1: `"spec":{},"status":{"registrations":[
				{"type":"kubeClient","kubeClient":{"subject":{"user":"u","groups":["g"]},"driver":"token"}},
				{"type":"customSigner","customSigner":{"signerName":"example.com/s","subject":{"user":"v","groups":["h"],"organizationUnits":["o"]}}},
				{"type":"kubeClient","kubeClient":{"driver":"token"}}]}`,
		},
		"registrations without their settings": {
			kind:     "ManagedClusterAddOn",
			v1beta1:  `"spec":{},"status":{"registrations":[{"type":"kubeClient"},{"type":"customSigner"},{"type":"kubeClient","kubeClient":{"driver":"csr"}}]}`,
			v1alpha1: `"spec":{},"status":{"kubeClientDriver":"csr","registrations":[{"signerName":"kubernetes.io/kube-apiserver-client"},{"signerName":""},{"signerName":"kubernetes.io/kube-apiserver-client"}]}`,
			only:     v1alpha1Version,
		},
		"an agent sets the driver of the first, and it is the driver of all": {
			kind:     "ManagedClusterAddOn",
			v1beta1:  `"spec":{},"status":{"registrations":[{"type":"kubeClient","kubeClient":{"driver":"token"}},{"type":"kubeClient","kubeClient":{"driver":"csr"}}]}`,
			v1alpha1: `"spec":{},"status":{"kubeClientDriver":"token","registrations":[{"signerName":"kubernetes.io/kube-apiserver-client"},{"signerName":"kubernetes.io/kube-apiserver-client"}]}`,
			only:     v1alpha1Version,
		},
		"a driver before there is a registration": {
			kind:     "ManagedClusterAddOn",
			v1alpha1: `"spec":{},"status":{"kubeClientDriver":"token"}`,
			v1beta1:  `"metadata":{"annotations":{"muster-fleet.io/v1alpha1-fields":"{\"kubeClientDriver\":\"token\"}"}},"spec":{},"status":{}`,
		},
		"the driver of a registration wins over the one from before": {
			kind:     "ManagedClusterAddOn",
			v1beta1:  `"metadata":{"annotations":{"muster-fleet.io/v1alpha1-fields":"{\"kubeClientDriver\":\"token\"}"}},"spec":{},"status":{"registrations":[{"type":"kubeClient","kubeClient":{}}]}`,
			v1alpha1: `"spec":{},"status":{"registrations":[{"signerName":"kubernetes.io/kube-apiserver-client"}]}`,
			only:     v1alpha1Version,
		},
		"configurations in use": {
			kind:     "ManagedClusterAddOn",
			v1alpha1: `"spec":{},"status":{"configReferences":[{"group":"g","resource":"rs","namespace":"ns","name":"n","lastObservedGeneration":3,"desiredConfig":{"namespace":"ns","name":"n","specHash":"h"}}]}`,
			v1beta1:  `"spec":{},"status":{"configReferences":[{"group":"g","resource":"rs","lastObservedGeneration":3,"desiredConfig":{"namespace":"ns","name":"n","specHash":"h"}}]}`,
		},
		"configurations of an older manager": {
			kind:     "ManagedClusterAddOn",
			v1alpha1: `"spec":{},"status":{"configReferences":[{"group":"g","resource":"rs","namespace":"ns","name":"n"}]}`,
			v1beta1: `"metadata":{"annotations":{"muster-fleet.io/v1alpha1-fields":"{\"configReferences\":[{\"index\":0,\"kind\":{\"group\":\"g\",\"resource\":\"rs\"},\"referent\":{\"namespace\":\"ns\",\"name\":\"n\"}}]}"}},
				"spec":{},"status":{"configReferences":[{"group":"g","resource":"rs"}]}`,
		},
		"older fields of entries that are gone or others by now": {
			kind: "ManagedClusterAddOn",
			v1beta1: `"metadata":{"annotations":{"muster-fleet.io/v1alpha1-fields":"{\"configReferences\":[{\"index\":0,\"kind\":{\"group\":\"x\",\"resource\":\"rs\"},\"referent\":{\"name\":\"n\"}},{\"index\":9,\"kind\":{\"resource\":\"rs\"},\"referent\":{\"name\":\"n\"}},{\"index\":-1,\"kind\":{\"resource\":\"rs\"},\"referent\":{\"name\":\"n\"}}],\"organizationUnits\":[{\"index\":0,\"user\":\"u\",\"units\":[\"o\"]},{\"index\":-5,\"units\":[\"o\"]},{\"index\":7,\"units\":[\"o\"]}]}"}},
				"spec":{},"status":{"configReferences":[{"group":"g","resource":"rs","desiredConfig":{"name":"m","specHash":""}}],"registrations":[{"type":"kubeClient","kubeClient":{"subject":{"user":"w"}}}]}`,
			v1alpha1: `"spec":{},"status":{"configReferences":[{"group":"g","resource":"rs","name":"m","desiredConfig":{"name":"m"}}],"registrations":[{"signerName":"kubernetes.io/kube-apiserver-client","subject":{"user":"w"}}]}`,
			only:     v1alpha1Version,
		},
	} {
		t.Run(name, func(t *testing.T) {
			object := func(version, body string) []byte {
				return fmt.Appendf(nil, `{"apiVersion":%q,"kind":%q,%s}`, version, x.kind, body)
			}
			a, b := object(v1alpha1Version, x.v1alpha1), object(v1beta1Version, x.v1beta1)
			if x.only != v1alpha1Version {
				same(t, convert(t, a, v1beta1Version), b)
			}
			if x.only != v1beta1Version {
				same(t, convert(t, b, v1alpha1Version), a)
			}
		})
	}
}

func TestWhatCannotBeConverted(t *testing.T) {
	for name, x := range map[string]struct{ object, to, want string }{
		"nothing":         {``, v1beta1Version, "read the kind"},
		"no object":       {`[1]`, v1beta1Version, "read the kind"},
		"another kind":    {`{"apiVersion":"v1","kind":"Secret"}`, v1beta1Version, `no conversion of v1 "Secret"`},
		"another version": {`{"apiVersion":"` + v1alpha1Version + `","kind":"ManagedClusterAddOn"}`, "addon.open-cluster-management.io/v2", `to "addon.open-cluster-management.io/v2"`},
		"a list":          {`{"apiVersion":"` + v1alpha1Version + `","kind":"ManagedClusterAddOnList","items":[]}`, v1beta1Version, `"ManagedClusterAddOnList"`},
		"a wrong type":    {`{"apiVersion":"` + v1alpha1Version + `","kind":"ManagedClusterAddOn","metadata":{"namespace":"c","name":"n"},"spec":{"configs":7}}`, v1beta1Version, "convert the ManagedClusterAddOn c/n from"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := conversion.Convert([]byte(x.object), x.to)
			if err == nil || !strings.Contains(err.Error(), x.want) {
				t.Errorf("got %s and %v, want an error with %q", got, err, x.want)
			}
		})
	}
}

// Whatever a store holds or a client sends: an error or an object that converts
// back, and that stays the same from then on.
func FuzzConvert(f *testing.F) {
	for seed := range int64(20) {
		r := random{rand.New(rand.NewSource(seed))}
		for _, o := range []any{r.managedV1alpha1(), r.managedV1beta1(), r.definitionV1alpha1(), r.definitionV1beta1()} {
			data, err := json.Marshal(o)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(data, seed%2 == 0)
		}
	}
	f.Add([]byte(`{"apiVersion":"`+v1beta1Version+`","kind":"ManagedClusterAddOn","metadata":{"annotations":{"muster-fleet.io/v1alpha1-fields":"{\"organizationUnits\":[{\"index\":-1}]}"}},"status":{"registrations":[{},null]}}`), true)
	f.Fuzz(func(t *testing.T, object []byte, older bool) {
		there, back := v1beta1Version, v1alpha1Version
		if older {
			there, back = back, there
		}
		converted, err := conversion.Convert(object, there)
		if err != nil {
			return
		}
		if bytes.Equal(object, converted) { // of that version already
			return
		}
		same(t, convert(t, convert(t, converted, back), there), converted)
	})
}

func BenchmarkConvert(b *testing.B) {
	r := random{rand.New(rand.NewSource(1))}
	object, err := json.Marshal(r.managedV1alpha1())
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := conversion.Convert(object, v1beta1Version); err != nil {
			b.Fatal(err)
		}
	}
}

func convert(t *testing.T, object []byte, version string) []byte {
	t.Helper()
	out, err := conversion.Convert(object, version)
	if err != nil {
		t.Fatalf("%s\n%v", object, err)
	}
	return out
}

// same compares JSON; that a status or metadata is empty means nothing.
func same(t *testing.T, got, want []byte) {
	t.Helper()
	var objects [2]map[string]any
	for i, data := range [][]byte{got, want} {
		testkit.Must(t, json.Unmarshal(data, &objects[i]))
		for _, field := range []string{"metadata", "status"} {
			if m, ok := objects[i][field].(map[string]any); ok && len(m) == 0 {
				delete(objects[i], field)
			}
		}
	}
	if !reflect.DeepEqual(objects[0], objects[1]) {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

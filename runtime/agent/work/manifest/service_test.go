package manifest

import (
	"encoding/json"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func TestServicesCarryTheHashOfTheirSpec(t *testing.T) {
	service := func(spec string) *unstructured.Unstructured {
		return parseObject(t, `{"apiVersion":"v1","kind":"Service","metadata":{"name":"a","annotations":{"theirs":"yes"}},"spec":`+spec+`}`)
	}
	hash := func(o *unstructured.Unstructured) string {
		markServiceSpec(o)
		return o.GetAnnotations()["operator.openshift.io/spec-hash"]
	}
	// The SHA-256 of {"ports":[{"port":80,"targetPort":0}],"selector":{"app":"a"}}.
	if got, want := hash(service(`{"selector":{"app":"a"},"ports":[{"port":80}]}`)), "9e10f96f6d2b8bfb851ec6acf83ee68b441b903033b58584e8599e6220fe3fcd"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got := hash(service(`{"ports":"many"}`)); got != "" {
		t.Errorf("a spec that is none has the hash %s", got)
	}
	if got := hash(parseObject(t, `{"apiVersion":"v1","kind":"ConfigMap","spec":{}}`)); got != "" {
		t.Errorf("a config map has the hash %s", got)
	}
}

func parseObject(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	o := &unstructured.Unstructured{}
	if err := json.Unmarshal([]byte(text), o); err != nil {
		t.Fatal(err)
	}
	return o
}

package gc_test

import (
	"strings"
	"testing"

	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/controllers/registration/gc"
)

func TestResourcesAreReadAndWritten(t *testing.T) {
	const text = "work.open-cluster-management.io/v1/manifestworks,v1/configmaps"
	got, err := gc.ParseResources(strings.Split(text, ","))
	if err != nil {
		t.Fatal(err)
	}
	if got[1].Group != "" || got[1].Version != "v1" || got[1].Resource != "configmaps" || gc.FormatResources(got) != text {
		t.Errorf("got %v", got)
	}
	const byDefault = "addon.open-cluster-management.io/v1beta1/managedclusteraddons,work.open-cluster-management.io/v1/manifestworks"
	if got := gc.FormatResources(gc.DefaultResources()); got != byDefault {
		t.Errorf("the default is %s, want %s", got, byDefault)
	}
}

func TestMalformedResourcesAreNamed(t *testing.T) {
	_, err := gc.ParseResources([]string{"v1/configmaps", "pods", "a/b/c/d", "apps//deployments", ""})
	for _, bad := range []string{`"pods"`, `"a/b/c/d"`, `"apps//deployments"`, `""`} {
		if err == nil || !strings.Contains(err.Error(), bad+" is not of the form group/version/resource") {
			t.Errorf("%s is not in the error: %v", bad, err)
		}
	}
}

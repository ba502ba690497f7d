package v1_test

import (
	"testing"

	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

func TestPatternsMatchWholeNames(t *testing.T) {
	for _, x := range []struct {
		pattern, name string
		want          bool
	}{
		{"web", "web", true}, {"web", "web-1", false}, {"*", "", true}, {"web-*", "web-1", true}, {"web-*", "my-web-1", false},
		{"*-web", "my-web", true}, {"a*b*c", "a1b2c", true}, {"a.b*", "axb", false},
	} {
		id := workv1.ResourceIdentifier{Group: "apps", Resource: "deployments", Namespace: "n*", Name: x.pattern}
		if got := id.Matches("apps", "deployments", "ns", x.name); got != x.want {
			t.Errorf("%q matches %q: %v", x.pattern, x.name, got)
		}
		id.Namespace, id.Name = x.pattern, "*"
		if got := id.Matches("apps", "deployments", x.name, "any"); got != x.want {
			t.Errorf("the namespace %q matches %q: %v", x.pattern, x.name, got)
		}
		if id.Matches("", "deployments", x.name, "any") || id.Matches("apps", "daemonsets", x.name, "any") {
			t.Errorf("%+v matches another group or resource", id)
		}
	}
}

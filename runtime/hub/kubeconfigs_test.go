package hub_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/client-go/rest"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
)

// The kubeconfigs of a cloud are a subresource, with a right of its own, which the
// right to read clouds does not include.
func TestKubeconfigsNeedARightOfTheirOwn(t *testing.T) {
	namespace, lc := tenancy(t, func(c *v1alpha1.LogicalCloud) {
		c.Spec.Access.KeyPolicy = v1alpha1.KeyHubMade
		c.Spec.Grants[0].Users = []string{c.Namespace + "-jo", c.Namespace + "-al"}
	})
	lists := rbacv1.PolicyRule{APIGroups: []string{cluster.GroupName}, Resources: []string{"managedclusters"}, Verbs: []string{"list"}}
	may := func(resource string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: []string{muster.GroupName}, Resources: []string{resource}, Verbs: []string{"get"}}
	}
	jo, al := namespace+"-jo", namespace+"-al"
	grant(t, jo, lists, may("logicalclouds/kubeconfig"))
	grant(t, al, lists, may("logicalclouds"))
	ask := func(method, who, path string) (int, string) {
		t.Helper()
		config := impersonate(who)
		c, err := rest.HTTPClientFor(config)
		testkit.Must(t, err)
		r, err := http.NewRequestWithContext(context.Background(), method, config.Host+path, nil)
		testkit.Must(t, err)
		answer, err := c.Do(r)
		testkit.Must(t, err)
		defer func() { _ = answer.Body.Close() }()
		body, err := io.ReadAll(answer.Body)
		testkit.Must(t, err)
		return answer.StatusCode, string(body)
	}
	path := "/apis/muster-fleet.io/v1alpha1/namespaces/" + namespace + "/logicalclouds/" + lc.Name + "/kubeconfig"
	for _, x := range []struct {
		method, who, path string
		code              int
		want              string
	}{
		{http.MethodGet, jo, path, http.StatusAccepted, `"kind":"KubeconfigPending"`},
		{http.MethodGet, jo, path + "?user=" + al, http.StatusForbidden, "impersonate"},
		{http.MethodGet, al, path, http.StatusForbidden, "logicalclouds"},
		{http.MethodPut, jo, path, http.StatusForbidden, "logicalclouds"},
		{http.MethodGet, jo, strings.Replace(path, lc.Name, "gone", 1), http.StatusNotFound, "not found"},
	} {
		if code, body := ask(x.method, x.who, x.path); code != x.code || !strings.Contains(body, x.want) {
			t.Errorf("%s %s as %s: %d %s, want %d", x.method, x.path, x.who, code, body, x.code)
		}
	}
}

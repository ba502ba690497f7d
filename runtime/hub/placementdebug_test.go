package hub_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/internal/hubinfo"
	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	clusterv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta1"
	clusterv1beta2 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta2"
	"github.com/muster-fleet/terraform-provider-muster/runtime/features"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub"
)

// asked sends a request to a hub as the user of the configuration.
func asked(t *testing.T, c *rest.Config, method, path, body string) (int, string) {
	t.Helper()
	h, err := rest.HTTPClientFor(c)
	testkit.Must(t, err)
	r, err := http.NewRequestWithContext(context.Background(), method, c.Host+path, strings.NewReader(body))
	testkit.Must(t, err)
	answer, err := h.Do(r)
	testkit.Must(t, err)
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(answer.Body)
	testkit.Must(t, err)
	return answer.StatusCode, string(text)
}

func TestPlacementDebugServerIsOffByDefault(t *testing.T) {
	if status, body := asked(t, admin, http.MethodGet, "/debug/placements/default/p", ""); status != http.StatusNotFound || strings.Contains(body, "placement '") {
		t.Errorf("the administrator gets %d %s", status, body)
	}
	if status, _ := asked(t, impersonate("stranger"), http.MethodGet, "/debug/placements/default/p", ""); status != http.StatusForbidden {
		t.Errorf("a stranger gets %d, want what other paths give", status)
	}
}

func TestPlacementsAreExplainedAndPreferredWithTheirGates(t *testing.T) {
	ctx := context.Background()
	gates := features.NewHub()
	testkit.Must(t, gates.Set("PlacementDebugServer=true,PreferNoSelect=true"))
	ready, stop, err := start(hub.Options{DataDir: t.TempDir(), Features: gates})
	testkit.Must(t, err)
	t.Cleanup(func() { testkit.Must(t, stop()) })
	config, err := clientcmd.BuildConfigFromFlags("", ready.Kubeconfig)
	testkit.Must(t, err)
	c := clientFor(t, config)
	as := func(user string) *rest.Config {
		other := rest.CopyConfig(config)
		other.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: []string{"system:authenticated"}}
		return other
	}
	testkit.Must(t, c.Create(ctx, &clusterv1beta2.ManagedClusterSetBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "default"}, Spec: clusterv1beta2.ManagedClusterSetBindingSpec{ClusterSet: "default"}}))
	// Nobody tolerates the taint of a cluster that never reports, but by this.
	tolerations := []clusterv1beta1.Toleration{{Key: "cluster.open-cluster-management.io/unreachable", Operator: clusterv1beta1.TolerationOpExists}}
	for name, taints := range map[string][]clusterv1.Taint{"a": {{Key: "old", Effect: clusterv1.TaintEffectPreferNoSelect}}, "b": nil} {
		mc := newCluster(name)
		mc.Spec.Taints = taints
		testkit.Must(t, c.Create(ctx, mc))
	}
	one := int32(1)
	p := &clusterv1beta1.Placement{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p"}, Spec: clusterv1beta1.PlacementSpec{NumberOfClusters: &one, Tolerations: tolerations}}
	testkit.Must(t, c.Create(ctx, p))
	testkit.Must(t, c.Create(ctx, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "placement-reader"}, Rules: []rbacv1.PolicyRule{{APIGroups: []string{clusterv1beta1.GroupVersion.Group}, Resources: []string{"placements"}, Verbs: []string{"get"}}}}))
	testkit.Must(t, c.Create(ctx, &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "reader"},
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "placement-reader"}, Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: "reader"}}}))

	t.Run("an explanation", func(t *testing.T) {
		testkit.Eventually(t, func() error {
			status, body := asked(t, as("reader"), http.MethodGet, "/debug/placements/default/p", "")
			if status != http.StatusOK {
				return unexpected(status, body)
			}
			var answer struct {
				Explanations []struct {
					ClusterName string
					Selected    bool
					Reasons     []string
				}
			}
			testkit.Must(t, json.Unmarshal([]byte(body), &answer))
			if e := answer.Explanations; len(e) != 2 || e[0].ClusterName != "b" || !e[0].Selected || e[1].Selected || !strings.Contains(strings.Join(e[1].Reasons, " "), "old:PreferNoSelect") {
				return unexpected(status, body)
			}
			return nil
		})
	})
	t.Run("the controller prefers as is explained", func(t *testing.T) {
		testkit.Eventually(t, func() error {
			d := &clusterv1beta1.PlacementDecision{}
			if err := c.Get(ctx, client.ObjectKey{Namespace: "default", Name: "p-decision-1"}, d); err != nil {
				return err
			}
			if len(d.Status.Decisions) != 1 || d.Status.Decisions[0].ClusterName != "b" {
				return unexpected(0, d.Status.Decisions)
			}
			return nil
		})
	})
	for name, x := range map[string]struct {
		config             *rest.Config
		method, path, body string
		status             int
	}{
		"a simulation":         {config, http.MethodPost, "/debug/placements/", `{"metadata": {"namespace": "default", "name": "new"}}`, http.StatusOK},
		"no right to simulate": {as("reader"), http.MethodPost, "/debug/placements/", `{"metadata": {"namespace": "default", "name": "new"}}`, http.StatusForbidden},
		"no right to read":     {as("stranger"), http.MethodGet, "/debug/placements/default/p", "", http.StatusForbidden},
		"nobody":               {rest.AnonymousClientConfig(config), http.MethodGet, "/debug/placements/default/p", "", http.StatusUnauthorized},
		"no such placement":    {config, http.MethodGet, "/debug/placements/default/none", "", http.StatusNotFound},
		"no path":              {config, http.MethodGet, "/debug/placements/default", "", http.StatusBadRequest},
		"no method":            {as("stranger"), http.MethodDelete, "/debug/placements/default/p", "", http.StatusMethodNotAllowed},
	} {
		t.Run(name, func(t *testing.T) {
			status, body := asked(t, x.config, x.method, x.path, x.body)
			if status != x.status || (status == http.StatusOK) == strings.HasPrefix(body, `{"error":`) {
				t.Errorf("got %d %s, want %d", status, body, x.status)
			}
		})
	}
	t.Run("the preference is published for previews of selections", func(t *testing.T) {
		for config, want := range map[*rest.Config]bool{config: true, admin: false} {
			info := &corev1.ConfigMap{}
			testkit.Must(t, clientFor(t, config).Get(ctx, client.ObjectKey{Namespace: "kube-public", Name: hubinfo.Name}, info))
			if got := hubinfo.Has(info.Data, hubinfo.PreferNoSelect); got != want {
				t.Errorf("told: %v, want %v", got, want)
			}
		}
	})
	t.Run("other paths stay closed", func(t *testing.T) {
		if status, _ := asked(t, as("stranger"), http.MethodGet, "/debug/placement", ""); status != http.StatusForbidden {
			t.Errorf("got %d, want 403", status)
		}
	})
}

// unexpected is an error that shows what there is instead.
func unexpected(status int, what any) error { return fmt.Errorf("there is %d %v", status, what) }

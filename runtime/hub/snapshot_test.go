package hub_test

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/muster-fleet/terraform-provider-muster/internal/hubinfo"
	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/scheduling"
)

// A snapshot of the fleet is for those who may list all that is in it, and has it
// without the records of field managers.
func TestASnapshotIsForThoseWhoMayListAllOfIt(t *testing.T) {
	ctx := context.Background()
	c := clientFor(t, admin)
	testkit.Must(t, c.Create(ctx, newCluster("in-the-snapshot")))
	all := []string{"managedclusters", "managedclustersets", "managedclustersetbindings", "placementdecisions", "addonplacementscores"}
	lister := func(name string, resources ...string) *rest.Config {
		testkit.Must(t, c.Create(ctx, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name},
			Rules: []rbacv1.PolicyRule{{APIGroups: []string{clusterv1.GroupVersion.Group}, Resources: resources, Verbs: []string{"list"}}}}))
		testkit.Must(t, c.Create(ctx, &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: name},
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name}, Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: name}}}))
		return impersonate(name)
	}
	for name, who := range map[string]*rest.Config{"the administrator": admin, "who may list all": lister("lists-all", all...)} {
		testkit.Eventually(t, func() error {
			status, body := asked(t, who, http.MethodGet, hubinfo.SnapshotPath, "")
			var fleet scheduling.Snapshot
			if status != http.StatusOK || json.Unmarshal([]byte(body), &fleet) != nil {
				return unexpected(status, name+": "+body)
			}
			if strings.Contains(body, "managedFields") {
				t.Fatalf("%s: the snapshot has records of field managers", name)
			}
			found := slices.ContainsFunc(fleet.Clusters, func(c clusterv1.ManagedCluster) bool { return c.Name == "in-the-snapshot" && c.UID != "" })
			if !found || len(fleet.Sets) == 0 || fleet.Now.IsZero() {
				return unexpected(status, name+": "+body)
			}
			return nil
		})
	}
	for _, missing := range all {
		who := lister("lists-all-but-"+missing, slices.DeleteFunc(slices.Clone(all), func(r string) bool { return r == missing })...)
		testkit.Eventually(t, func() error {
			status, body := asked(t, who, http.MethodGet, hubinfo.SnapshotPath, "")
			if status != http.StatusForbidden {
				t.Fatalf("without %s: got %d", missing, status)
			}
			if !strings.Contains(body, "may not list "+missing) {
				return unexpected(status, body) // The authorizer has not heard of the other rights yet.
			}
			return nil
		})
	}
	for name, test := range map[string]struct {
		who          *rest.Config
		method, path string
		want         int
	}{
		"a stranger":       {impersonate("stranger"), http.MethodGet, hubinfo.SnapshotPath, http.StatusForbidden},
		"nobody":           {rest.AnonymousClientConfig(admin), http.MethodGet, hubinfo.SnapshotPath, http.StatusUnauthorized},
		"a write":          {admin, http.MethodPost, hubinfo.SnapshotPath, http.StatusMethodNotAllowed},
		"below the path":   {admin, http.MethodGet, hubinfo.SnapshotPath + "/x", http.StatusNotFound},
		"a stranger below": {impersonate("stranger"), http.MethodGet, hubinfo.SnapshotPath + "/x", http.StatusForbidden},
	} {
		if status, body := asked(t, test.who, test.method, test.path, ""); status != test.want {
			t.Errorf("%s: got %d %s, want %d", name, status, body, test.want)
		}
	}
}

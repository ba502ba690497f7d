package hub

import (
	"errors"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestRefusalsOfTheHubNameTheMissingRight(t *testing.T) {
	for refusal, want := range map[string]string{
		`user "joe" cannot update the HubAcceptsClient field`:                                                                       "update on managedclusters/accept in the API group register.open-cluster-management.io",
		`user "joe" cannot add/remove a ManagedCluster to/from ManagedClusterSet "blue"`:                                            "create on managedclustersets/join in the API group cluster.open-cluster-management.io",
		`user "joe" is not allowed to bind cluster set "blue"`:                                                                      "create on managedclustersets/bind",
		`user joe cannot manipulate the Manifestwork with executor apps/deployer in namespace c1`:                                   "execute-as on manifestworks",
		`User "joe" cannot patch resource "managedclusters" in API group "cluster.open-cluster-management.io" at the cluster scope`: "Let a cluster role that grants this be bound",
	} {
		err := apierrors.NewForbidden(schema.GroupResource{Group: "cluster.open-cluster-management.io", Resource: "managedclusters"}, "c1", errors.New(refusal))
		if got := Explain("https://hub", "do it", err); !strings.Contains(got, want) || !strings.Contains(got, refusal) {
			t.Errorf("%s:\ngot %s\nwant %s", refusal, got, want)
		}
	}
}

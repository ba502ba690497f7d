package hub

import (
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
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

func TestADryRunsAnswerIsTheApplysWhereNothingElseCanChangeIt(t *testing.T) {
	clusters := schema.GroupResource{Group: cluster.GroupName, Resource: "managedclusters"}
	terminating := apierrors.NewForbidden(clusters, "c", errors.New("namespace n is being deleted"))
	terminating.ErrStatus.Details.Causes = append(terminating.ErrStatus.Details.Causes, metav1.StatusCause{Type: corev1.NamespaceTerminatingCause})
	for name, test := range map[string]struct {
		err  error
		want bool
	}{
		"invalid":                       {apierrors.NewInvalid(schema.GroupKind{}, "c", nil), true},
		"a role that is not there":      {apierrors.NewInvalid(schema.GroupKind{}, "c", field.ErrorList{field.NotFound(field.NewPath("role"), "r")}), false},
		"a missing role and a bad name": {apierrors.NewInvalid(schema.GroupKind{}, "c", field.ErrorList{field.NotFound(field.NewPath("role"), "r"), field.Invalid(field.NewPath("name"), "-", "")}), true},
		"refused by admission":          {apierrors.NewForbidden(clusters, "c", errors.New(`user "u" `+cluster.RefusedSetMembership+` "s"`)), true},
		"reserved":                      {apierrors.NewBadRequest("the name is reserved"), true},
		"no right to write":             {apierrors.NewForbidden(clusters, "c", errors.New(`User "u" cannot patch resource "managedclusters" in API group "x" at the cluster scope`)), false},
		"a webhook without dry runs":    {apierrors.NewBadRequest(`admission webhook "w" does not support dry run`), false},
		"a namespace that is not there": {apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, "n"), false},
		"a namespace that goes":         {terminating, false},
		"a quota":                       {apierrors.NewForbidden(clusters, "c", errors.New("exceeded quota: q")), false},
		"a kind that is not served":     {apierrors.NewGenericServerResponse(404, "patch", clusters, "c", "", 0, true), false},
		"not known":                     {apierrors.NewUnauthorized("who?"), false},
		"too busy":                      {apierrors.NewTooManyRequests("later", 1), false},
		"away":                          {errors.New("connection refused"), false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := RefusesForGood(test.err); got != test.want {
				t.Errorf("got %v for %v", got, test.err)
			}
		})
	}
}

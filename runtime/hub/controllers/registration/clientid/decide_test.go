package clientid

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	musterv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
)

var now = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// a managed cluster, from its words: "id:x" and "uid:u" are its annotations, "made"
// says that it was created for another registration, "own" for this one.
func managed(name string, words ...string) *clusterv1.ManagedCluster {
	mc := &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{}, Labels: map[string]string{}}}
	for _, w := range words {
		switch key, value, _ := strings.Cut(w, ":"); key {
		case "id":
			mc.Annotations[muster.ClientIDAnnotation] = value
		case "uid":
			mc.Annotations[muster.ClusterUIDAnnotation] = value
		case "made":
			mc.Labels[muster.RegistrationLabel] = "another"
		case "own":
			mc.Labels[muster.RegistrationLabel] = "this"
		case "joined":
			mc.Status.Conditions = []metav1.Condition{{Type: cluster.ConditionJoined, Status: metav1.ConditionTrue}}
		case "deleted":
			mc.DeletionTimestamp = &metav1.Time{Time: now}
		}
	}
	return mc
}

func TestDecide(t *testing.T) {
	derived := muster.DerivedClusterName("x")
	plain := &token{id: "abcdef"}
	with := func(change func(*token)) *token {
		t := *plain
		change(&t)
		return &t
	}
	naming := with(func(t *token) { t.scope.ClientIDs = []string{"x"} })
	bound := with(func(t *token) { t.bound = []string{"paris"} })
	rejoining := with(func(t *token) { t.bound, t.rejoin = []string{"paris"}, "paris" })
	for name, test := range map[string]struct {
		token          *token
		anonymous      bool // the requester has no token
		named          []*clusterv1.ManagedCluster
		derived, bound *clusterv1.ManagedCluster
		labels         map[string]string

		want  string // "create NAME", "adopt NAME", "rejoin NAME", or the reason of a refusal
		says  string
		taken []string
	}{
		"nobody has the client ID":                      {token: plain, want: "create " + derived},
		"nobody has it, and the requester has no token": {anonymous: true, want: "create " + derived},
		"the derived name is another's":                 {token: plain, derived: managed(derived), want: muster.ReasonClusterNameTaken, says: "annotation " + muster.ClientIDAnnotation},
		"the derived name's cluster is being deleted":   {token: plain, derived: managed(derived, "deleted"), want: muster.ReasonClusterBeingDeleted},
		"the token is gone":                             {want: muster.ReasonTokenGone, says: "revoked"},
		"the token has expired":                         {token: with(func(t *token) { t.expires = now }), want: muster.ReasonTokenExpired, says: "2026-01-01T12:00:00Z"},
		"the token is about to expire":                  {token: with(func(t *token) { t.expires = now.Add(time.Second) }), want: "create " + derived},
		"the token's Secret is nonsense":                {token: with(func(t *token) { t.problem = errors.New("no number") }), want: muster.ReasonTokenUnusable, says: "no number"},
		"the token is for another client ID":            {token: with(func(t *token) { t.scope.ClientIDs = []string{"y"} }), want: muster.ReasonTokenNotFor},
		"the token is used up": {
			token: with(func(t *token) { t.scope = cluster.TokenScope{MaxClusters: 1, UsedBy: []string{"a"}} }), want: muster.ReasonTokenUsedUp, says: "may register 1 cluster"},
		"the token was used for this very cluster": {
			token: with(func(t *token) { t.scope = cluster.TokenScope{MaxClusters: 1, UsedBy: []string{derived}} }), want: "create " + derived},

		"prepared, and a token for any cluster": {
			token: plain, named: list(managed("paris", "id:x")), want: muster.ReasonProofRequired, says: "does not prove"},
		"prepared, and no token":                         {anonymous: true, named: list(managed("paris", "id:x")), want: muster.ReasonProofRequired},
		"prepared, and a token that names the client ID": {token: naming, named: list(managed("paris", "id:x")), want: "adopt paris"},
		"prepared, and a token that is bound to it":      {token: bound, named: list(managed("paris", "id:x")), bound: managed("paris", "id:x"), want: "adopt paris"},
		"prepared, and a token that is bound to another": {token: bound, named: list(managed("rome", "id:x")), bound: managed("paris"), want: muster.ReasonTokenNotFor},
		"prepared twice":                                 {token: naming, named: list(managed("a", "id:x"), managed("b", "id:x")), want: muster.ReasonClientIDNotUnique, says: "2 ManagedClusters"},
		"prepared twice, and bound to one of them": {
			token: bound, named: list(managed("paris", "id:x"), managed("rome", "id:x")), bound: managed("paris", "id:x"), want: muster.ReasonClientIDNotUnique},
		"prepared twice, and one is being deleted": {
			token: naming, named: list(managed("a", "id:x", "deleted"), managed("b", "id:x")), want: "adopt b"},
		"being deleted": {token: naming, named: list(managed("a", "id:x", "deleted")), want: muster.ReasonClusterBeingDeleted},

		"a second cluster with the client ID": {
			token: naming, named: list(managed("paris", "id:x", "uid:other")), want: muster.ReasonAnotherCluster, says: "muster rejoin paris"},
		"a second cluster, before the first has joined": {token: plain, named: list(managed(derived, "id:x", "uid:other", "made")), want: muster.ReasonAnotherCluster},
		"the same cluster again, before it has joined":  {token: plain, named: list(managed(derived, "id:x", "uid:u", "made")), want: "adopt " + derived},
		"the same cluster again, after it has joined":   {token: plain, named: list(managed(derived, "id:x", "uid:u", "made", "joined")), want: muster.ReasonProofRequired, says: "has joined"},
		"the same cluster again, with a proof":          {token: naming, named: list(managed("paris", "id:x", "uid:u", "joined")), want: "adopt paris"},
		"joined by its name, and nobody knows whether it is the same": {
			token: naming, named: list(managed("paris", "id:x", "joined")), want: muster.ReasonAlreadyJoined, says: "muster rejoin paris"},

		"the token is bound to a cluster that is not there":     {token: bound, want: "create paris"},
		"the token is bound to a name that no cluster may have": {token: with(func(t *token) { t.bound = []string{"kube-system"} }), want: muster.ReasonTokenNotFor},
		"the token is bound to a cluster without a client ID":   {token: bound, bound: managed("paris"), want: "adopt paris"},
		"the token is bound to one with another client ID":      {token: bound, bound: managed("paris", "id:y"), want: muster.ReasonClientIDDiffers, says: "--client-id=y"},
		"the token is bound to one that joined by its name":     {token: bound, bound: managed("paris", "joined"), want: muster.ReasonAlreadyJoined},
		"the token is bound to one that is being deleted":       {token: bound, bound: managed("paris", "deleted"), want: muster.ReasonClusterBeingDeleted},
		"the token is bound to two":                             {token: with(func(t *token) { t.bound = []string{"paris", "rome"} }), want: muster.ReasonTokenNotFor, says: "2 clusters"},

		"rebuilt, with the client ID that was chosen": {token: rejoining, named: list(managed("paris", "id:x", "uid:old", "joined")), want: "rejoin paris"},
		"rebuilt, whose client ID was its UID":        {token: rejoining, bound: managed("paris", "id:old", "uid:old", "joined"), want: "rejoin paris"},
		"rebuilt, and started without its client ID":  {token: rejoining, bound: managed("paris", "id:y", "uid:old", "joined"), want: muster.ReasonClientIDDiffers},
		"rebuilt, and it never had one":               {token: rejoining, bound: managed("paris", "joined"), want: "rejoin paris"},
		"a third cluster, with a token that has let one join again": {
			token: with(func(t *token) { t.bound, t.rejoin, t.rejoinUID = []string{"paris"}, "paris", "second" }),
			named: list(managed("paris", "id:x", "uid:second", "joined")), want: muster.ReasonAnotherCluster},
		"the rebuilt one once more": {
			token: with(func(t *token) { t.bound, t.rejoin, t.rejoinUID = []string{"paris"}, "paris", "u" }),
			named: list(managed("paris", "id:x", "uid:u", "joined")), want: "rejoin paris"},

		"labels that the token allows": {
			token:  with(func(t *token) { t.scope.AllowedLabels = []string{"env", "team-*"} }),
			labels: map[string]string{"env": "prod", "team-a": "x", "cluster.open-cluster-management.io/clusterset": "root", "size": "9"},
			want:   "create " + derived, says: "left out: cluster.open-cluster-management.io/clusterset, size", taken: []string{"env", "team-a"}},
		"labels that the token sets itself": {
			token: with(func(t *token) {
				t.scope = cluster.TokenScope{Labels: map[string]string{"env": "prod", "a": "b"}, AllowedLabels: []string{"*"}}
			}),
			labels: map[string]string{"env": "dev", "a": "b", "muster-fleet.io/x": "y"}, want: "create " + derived, says: "left out: env, muster-fleet.io/x"},
		"labels for a cluster that is there": {token: naming, named: list(managed("paris", "id:x")), labels: map[string]string{"env": "x"}, want: "adopt paris", says: "was there before"},
		"labels of a cluster that was created a moment ago": {
			token: plain, named: list(managed(derived, "id:x", "uid:u", "own")), labels: map[string]string{"env": "x"}, want: "adopt " + derived, says: "left out: env"},
		"labels without a token": {anonymous: true, labels: map[string]string{"env": "x"}, want: "create " + derived, says: "left out: env"},
	} {
		t.Run(name, func(t *testing.T) {
			r := &musterv1alpha1.ClusterRegistration{
				ObjectMeta: metav1.ObjectMeta{Name: "this"},
				Spec:       musterv1alpha1.ClusterRegistrationSpec{ClientID: "x", ClusterUID: "u", Token: "abcdef", Labels: test.labels},
			}
			if test.anonymous {
				r.Spec.Token = ""
			}
			a := decide(question{registration: r, token: test.token, named: test.named, derived: test.derived, bound: test.bound, now: now})
			got := a.reason
			switch {
			case a.create:
				got = "create " + a.name
			case a.replaces:
				got = "rejoin " + a.name
			case a.name != "":
				got = "adopt " + a.name
			}
			if got != test.want {
				t.Errorf("got %q, want %q (%s)", got, test.want, a.message)
			}
			if !strings.Contains(a.message, test.says) {
				t.Errorf("%q does not say %q", a.message, test.says)
			}
			if have := slices.Sorted(maps.Keys(a.labels)); fmt.Sprint(have) != fmt.Sprint(test.taken) && test.taken != nil {
				t.Errorf("labels %q, want %q", have, test.taken)
			}
			if (a.name == "") != (a.reason != muster.ReasonRegistered) {
				t.Errorf("the reason %s goes with the name %q", a.reason, a.name)
			}
		})
	}
}

func list(clusters ...*clusterv1.ManagedCluster) []*clusterv1.ManagedCluster { return clusters }

// A refused registration changes nothing of the token that it was asked with.
func TestDecideLeavesTheTokenAlone(t *testing.T) {
	used := &token{id: "abcdef", scope: cluster.TokenScope{UsedBy: slices.Grow([]string{"a"}, 4)}}
	r := &musterv1alpha1.ClusterRegistration{Spec: musterv1alpha1.ClusterRegistrationSpec{ClientID: "x", ClusterUID: "u", Token: "abcdef"}}
	if a := decide(question{registration: r, token: used, now: now}); !a.create || fmt.Sprint(used.scope.UsedBy) != "[a]" {
		t.Errorf("%+v leaves the uses %q", a, used.scope.UsedBy)
	}
}

func TestIsUntouched(t *testing.T) {
	made := metav1.ManagedFieldsEntry{Manager: "muster-hub", FieldsV1: metav1.NewFieldsV1(`{"f:metadata":{"f:labels":{"f:muster-fleet.io/cluster-registration":{}}}}`)}
	entry := func(manager, subresource string) metav1.ManagedFieldsEntry {
		return metav1.ManagedFieldsEntry{Manager: manager, Subresource: subresource, FieldsV1: metav1.NewFieldsV1(`{}`)}
	}
	for name, x := range map[string]struct {
		fields []metav1.ManagedFieldsEntry
		want   bool
	}{
		"as it was created":            {[]metav1.ManagedFieldsEntry{made}, true},
		"with a status":                {[]metav1.ManagedFieldsEntry{made, entry("anybody", "status")}, true},
		"and changed by the hub":       {[]metav1.ManagedFieldsEntry{made, entry("muster-hub", "")}, true},
		"and edited":                   {[]metav1.ManagedFieldsEntry{made, entry("kubectl-edit", "")}, false},
		"and nobody knows who made it": {[]metav1.ManagedFieldsEntry{entry("muster-hub", "")}, false},
		"without managed fields":       {nil, false},
	} {
		if got := isUntouched(x.fields); got != x.want {
			t.Errorf("%s: got %v, want %v", name, got, x.want)
		}
	}
}

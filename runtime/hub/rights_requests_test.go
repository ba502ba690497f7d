package hub_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
	addonv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	clusterv1beta2 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta2"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

// request is something that somebody asks of the hub with their own
// credentials, and what the hub says: "" when it does it, else a part of the
// refusal.
type request struct {
	who, what string
	send      func(client.Client) error
	want      string
}

// patching, updating and so on are the requests, which change nothing even when
// they are allowed.
func patching(o client.Object, patch string) func(client.Client) error {
	return func(c client.Client) error {
		return c.Patch(context.Background(), o.DeepCopyObject().(client.Object), client.RawPatch(types.MergePatchType, []byte(patch)), client.DryRunAll)
	}
}

func patchingStatus(o client.Object, patch string) func(client.Client) error {
	return func(c client.Client) error {
		return c.Status().Patch(context.Background(), o.DeepCopyObject().(client.Object), client.RawPatch(types.MergePatchType, []byte(patch)), client.DryRunAll)
	}
}

func creating(o client.Object) func(client.Client) error {
	return func(c client.Client) error {
		return c.Create(context.Background(), o.DeepCopyObject().(client.Object), client.DryRunAll)
	}
}

func getting(o client.Object) func(client.Client) error {
	return func(c client.Client) error {
		return c.Get(context.Background(), client.ObjectKeyFromObject(o), o.DeepCopyObject().(client.Object))
	}
}

func deleting(o client.Object) func(client.Client) error {
	return func(c client.Client) error {
		return c.Delete(context.Background(), o.DeepCopyObject().(client.Object), client.DryRunAll)
	}
}

func listing(l client.ObjectList, options ...client.ListOption) func(client.Client) error {
	return func(c client.Client) error { return c.List(context.Background(), l, options...) }
}

// updating puts an object back as it is, but for a change.
func updating[T client.Object](t testing.TB, o T, change func(T)) func(client.Client) error {
	return func(c client.Client) error {
		now := o.DeepCopyObject().(T)
		testkit.Must(t, clientFor(t, admin).Get(context.Background(), client.ObjectKeyFromObject(o), now))
		change(now)
		return c.Update(context.Background(), now, client.DryRunAll)
	}
}

const acceptPatch = `{"spec":{"hubAcceptsClient":true}}`

func movePatch(set string) string {
	return fmt.Sprintf(`{"metadata":{"labels":{%q:%q}}}`, cluster.ClusterSetLabel, set)
}

func bindingOf(set string) *clusterv1beta2.ManagedClusterSetBinding {
	return &clusterv1beta2.ManagedClusterSetBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: set}, Spec: clusterv1beta2.ManagedClusterSetBindingSpec{ClusterSet: set}}
}

func acceptedFromTheStart(name string) *clusterv1.ManagedCluster {
	mc := newCluster(name)
	mc.Spec.HubAcceptsClient = ptr.To(true)
	return mc
}

// Who may accept, who may move clusters, and who may bind sets is not for rules
// alone to say: these are the requests, and the words of the refusals.
func acceptingAndMoving(t testing.TB, p places) []request {
	inSet := func(set string) *clusterv1.ManagedCluster {
		mc := newCluster(clusterName(t, "in-"+set))
		mc.Labels = map[string]string{cluster.ClusterSetLabel: set}
		testkit.Must(t, clientFor(t, admin).Create(context.Background(), mc))
		return newCluster(mc.Name)
	}
	inDefault, inBlue, inGreen := inSet("default"), inSet("blue"), inSet("green")
	fresh := clusterName(t, "fresh")
	cannotAccept := func(user, name string) string {
		return fmt.Sprintf(`managedclusters/accept.cluster.open-cluster-management.io %q is forbidden: user %q cannot update the HubAcceptsClient field`, name, user)
	}
	cannotMove := func(user, set string) string {
		return fmt.Sprintf(`user %q cannot add/remove a ManagedCluster to/from ManagedClusterSet %q`, user, set)
	}
	accepts := func(mc *clusterv1.ManagedCluster) { mc.Spec.HubAcceptsClient = ptr.To(true) }
	moves := func(set string) func(*clusterv1.ManagedCluster) {
		return func(mc *clusterv1.ManagedCluster) { mc.Labels[cluster.ClusterSetLabel] = set }
	}
	agent := cluster.CommonName(p.own, "a")
	return []request{
		{"accept-only", "accepts", patching(newCluster(p.pending), acceptPatch), ""},
		{"accept-only", "accepts again", patching(newCluster(p.denied), acceptPatch), ""},
		{"accept-only", "moves", patching(inDefault, movePatch("blue")), cannotMove("accept-only", "default")},
		{"set-admin", "accepts", updating(t, newCluster(p.pending), accepts), cannotAccept("set-admin", p.pending)},
		{"set-admin", "accepts again", updating(t, newCluster(p.denied), accepts), cannotAccept("set-admin", p.denied)},
		{"set-admin", "denies", updating(t, newCluster(p.other), func(mc *clusterv1.ManagedCluster) { mc.Spec.HubAcceptsClient = ptr.To(false) }), ""},
		{"set-admin", "takes a cluster out of another set", updating(t, inGreen, moves("blue")), cannotMove("set-admin", "green")},
		{"set-admin", "puts its cluster into another set", updating(t, inBlue, moves("green")), cannotMove("set-admin", "green")},
		{"set-admin", "changes its set", updating(t, &clusterv1beta2.ManagedClusterSet{ObjectMeta: metav1.ObjectMeta{Name: "blue"}}, func(*clusterv1beta2.ManagedClusterSet) {}), ""},
		{"set-admin", "changes another set", updating(t, &clusterv1beta2.ManagedClusterSet{ObjectMeta: metav1.ObjectMeta{Name: "green"}}, func(*clusterv1beta2.ManagedClusterSet) {}), `User "set-admin" cannot update resource "managedclustersets"`},
		{"set-admin", "binds its set", creating(bindingOf("blue")), ""},
		{"set-admin", "binds another set", creating(bindingOf("green")), `user "set-admin" is not allowed to bind cluster set "green"`},
		{"join-only", "accepts", patching(newCluster(p.pending), acceptPatch), cannotAccept("join-only", p.pending)},
		{"join-only", "moves between its sets", patching(inDefault, movePatch("blue")), ""},
		{"join-only", "takes a cluster out of another set", patching(inGreen, movePatch("blue")), cannotMove("join-only", "green")},
		{"join-only", "puts a cluster into another set", patching(inBlue, movePatch("green")), cannotMove("join-only", "green")},
		// A cluster without a set goes to the default one.
		{"join-only", "takes a cluster out of all sets", patching(inBlue, fmt.Sprintf(`{"metadata":{"labels":{%q:null}}}`, cluster.ClusterSetLabel)), ""},
		{"join-only", "binds", creating(bindingOf("blue")), `User "join-only" cannot create resource "managedclustersetbindings"`},
		{"bind-only", "binds", creating(bindingOf("blue")), ""},
		{"bind-only", "binds another set", creating(bindingOf("green")), `user "bind-only" is not allowed to bind cluster set "green"`},
		{"bind-only", "moves", patching(inDefault, movePatch("blue")), `User "bind-only" cannot patch resource "managedclusters"`},
		{"bootstrap", "announces a cluster", creating(newCluster(fresh)), ""},
		{"bootstrap", "accepts what it announces", creating(acceptedFromTheStart(fresh)), "cannot update the HubAcceptsClient field"},
		{"bootstrap", "accepts", patching(newCluster(p.pending), acceptPatch), `cannot patch resource "managedclusters"`},
		{"bootstrap service account", "announces a cluster", creating(newCluster(fresh)), ""},
		{"bootstrap service account", "accepts what it announces", creating(acceptedFromTheStart(fresh)), cannotAccept("system:serviceaccount:open-cluster-management:agent-registration-bootstrap", fresh)},
		// An agent may update its ManagedCluster, which is no way to other sets.
		{"cluster", "moves", updating(t, newCluster(p.own), moves("blue")), cannotMove(agent, "default")},
		{"cluster", "leaves the fleet for a while", updating(t, newCluster(p.own), func(mc *clusterv1.ManagedCluster) { mc.Spec.HubAcceptsClient = ptr.To(false) }), ""},
		{"denied cluster", "accepts itself", updating(t, newCluster(p.denied), accepts), `cannot update resource "managedclusters"`},
		{"pending cluster", "accepts itself", updating(t, newCluster(p.pending), accepts), `cannot update resource "managedclusters"`},
	}
}

// What agents and bootstrap identities may do is theirs alone.
func reachingOut(t testing.TB, p places) []request {
	lease := func(name string) *coordinationv1.Lease {
		return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: cluster.LeaseName}}
	}
	renew := func(name string) func(client.Client) error {
		return updating(t, lease(name), func(l *coordinationv1.Lease) { l.Spec.RenewTime = ptr.To(metav1.NowMicro()) })
	}
	work := func(name string) *workv1.ManifestWork {
		w := newWork(configMapManifest("a"))
		w.Namespace = name
		return w
	}
	for _, name := range []string{p.own, p.other} {
		testkit.Must(t, clientFor(t, admin).Create(context.Background(), work(name)))
	}
	csr := func(label, subject, generateName string) *certificatesv1.CertificateSigningRequest {
		r, _ := certificateRequest(t, subject, "b")
		r.Labels[cluster.NameLabel], r.GenerateName = label, generateName
		return r
	}
	named := csr(p.own, p.own, p.own+"-")
	named.Name = p.other + "-x"
	event := func(name string) *eventsv1.Event {
		return &eventsv1.Event{
			ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: "e"}, EventTime: metav1.NowMicro(), Type: corev1.EventTypeNormal,
			ReportingController: "klusterlet-agent", ReportingInstance: "x", Action: "Available", Reason: "Available",
			Regarding: corev1.ObjectReference{APIVersion: clusterv1.GroupVersion.String(), Kind: "ManagedCluster", Namespace: name, Name: name},
		}
	}
	version := `{"status":{"version":{"kubernetes":"v1.2.3"}}}`
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: cluster.RoleName(p.own)}}
	all := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "x"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: cluster.Group(p.own)}},
	}
	bound := fmt.Sprintf(`is bound to the cluster %q`, p.own)
	mine := []request{
		{"cluster", "reads itself", getting(newCluster(p.own)), ""},
		{"cluster", "reports", patchingStatus(newCluster(p.own), version), ""},
		{"cluster", "renews its lease", renew(p.own), ""},
		{"cluster", "takes a work", patching(work(p.own), `{"metadata":{"finalizers":["a.b/c"]}}`), ""},
		{"cluster", "reports on a work", patchingStatus(work(p.own), `{"status":{"conditions":[]}}`), ""},
		{"cluster", "tells of an event", creating(event(p.own)), ""},
		{"denied cluster", "reads itself", getting(newCluster(p.denied)), ""},
		{"bound bootstrap", "asks for a certificate", creating(csr(p.own, p.own, p.own+"-")), ""},
		{"bound bootstrap", "reads its cluster", getting(newCluster(p.own)), ""},
	}
	notMine := []request{
		{"cluster", "patches itself", patching(newCluster(p.own), `{"metadata":{"labels":{"a":"b"}}}`), `cannot patch resource "managedclusters"`},
		{"cluster", "deletes itself", deleting(newCluster(p.own)), `cannot delete resource "managedclusters"`},
		{"cluster", "announces another", creating(newCluster("x")), `cannot create resource "managedclusters"`},
		{"cluster", "makes a lease", creating(&coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: p.own, Name: "x"}}), `cannot create resource "leases"`},
		{"cluster", "makes a work", creating(work(p.own)), `cannot create resource "manifestworks"`},
		{"cluster", "deletes a work", deleting(work(p.own)), `cannot delete resource "manifestworks"`},
		{"cluster", "reads secrets of its namespace", listing(&corev1.SecretList{}, client.InNamespace(p.own)), `cannot list resource "secrets"`},
		{"cluster", "extends its role", patching(role, `{"rules":[]}`), `cannot patch resource "clusterroles"`},
		{"cluster", "makes itself an administrator", creating(all), `cannot create resource "clusterrolebindings"`},
		{"bound bootstrap", "announces another", creating(newCluster(p.other + "-x")), bound},
		{"bound bootstrap", "reads another", getting(newCluster(p.other)), `cannot get resource "managedclusters"`},
		{"bound bootstrap", "asks for another's certificate", creating(csr(p.other, p.other, p.other+"-")), bound},
		{"bound bootstrap", "asks for another's certificate under its own label", creating(csr(p.own, p.other, p.own+"-")), bound},
		{"bound bootstrap", "asks under another's label", creating(csr(p.other, p.own, p.own+"-")), bound},
		{"bound bootstrap", "asks by another's name", creating(csr(p.own, p.own, p.other+"-")), "the request's name must begin with"},
		{"bound bootstrap", "asks by another's full name", creating(named), "the request's name must begin with"},
		{"bound bootstrap", "lists others' requests", listing(&certificatesv1.CertificateSigningRequestList{}, client.MatchingLabels{cluster.NameLabel: p.other}), `cannot list resource "certificatesigningrequests"`},
		{"bound bootstrap", "joins another set", creating(func() client.Object {
			mc := newCluster(p.own)
			mc.Labels = map[string]string{cluster.ClusterSetLabel: "blue"}
			return mc
		}()), `cannot add/remove a ManagedCluster to/from ManagedClusterSet "blue"`},
		{"anonymous", "reads clusters", listing(&clusterv1.ManagedClusterList{}), `User "system:anonymous" cannot list resource "managedclusters"`},
		{"anonymous", "announces a cluster", creating(newCluster("x")), `User "system:anonymous" cannot create resource "managedclusters"`},
		{"anonymous", "asks for a certificate", creating(csr("x", "x", "x-")), `User "system:anonymous" cannot create resource "certificatesigningrequests"`},
	}
	// What a cluster does not do to another, a denied and a pending one don't
	// even do to themselves.
	for who, at := range map[string]string{"cluster": p.other, "denied cluster": p.denied, "pending cluster": p.pending, "bootstrap": p.own} {
		notMine = append(notMine,
			request{who, "reports on " + at, patchingStatus(newCluster(at), version), `cannot patch resource "managedclusters/status"`},
			request{who, "reads the lease of " + at, getting(lease(at)), `cannot get resource "leases"`},
			request{who, "lists the works of " + at, listing(&workv1.ManifestWorkList{}, client.InNamespace(at)), `cannot list resource "manifestworks"`},
			request{who, "takes a work of " + at, patching(work(at), `{"metadata":{"finalizers":["a.b/c"]}}`), `cannot patch resource "manifestworks"`},
			request{who, "reports on a work of " + at, patchingStatus(work(at), `{"status":{"conditions":[]}}`), `cannot patch resource "manifestworks/status"`},
			request{who, "lists the add-ons of " + at, listing(&addonv1alpha1.ManagedClusterAddOnList{}, client.InNamespace(at)), `cannot list resource "managedclusteraddons"`},
			request{who, "tells of an event of " + at, creating(event(at)), `cannot create resource "events"`},
		)
	}
	return append(append(mine, notMine...),
		request{"cluster", "renews the lease of another", renew(p.other), `cannot update resource "leases"`},
		request{"denied cluster", "renews its lease", renew(p.denied), `cannot update resource "leases"`},
		request{"cluster", "reads another", getting(newCluster(p.other)), `cannot get resource "managedclusters"`},
		request{"denied cluster", "asks for a certificate", creating(csr(p.denied, p.denied, p.denied+"-")), `cannot create resource "certificatesigningrequests"`},
		request{"pending cluster", "reads itself", getting(newCluster(p.pending)), `cannot get resource "managedclusters"`},
		request{"pending cluster", "asks for a certificate", creating(csr(p.pending, p.pending, p.pending+"-")), `cannot create resource "certificatesigningrequests"`},
	)
}

func TestRequestsOfEveryIdentity(t *testing.T) {
	p, everybody := fleetOfIdentities(t)
	for _, name := range []string{"blue", "green"} {
		s := &clusterv1beta2.ManagedClusterSet{ObjectMeta: metav1.ObjectMeta{Name: name}}
		testkit.Must(t, clientFor(t, admin).Create(context.Background(), s))
		t.Cleanup(func() { _ = clientFor(t, admin).Delete(context.Background(), s) })
	}
	// The leases and the authorizer's roles come a moment later.
	for _, name := range []string{p.own, p.other, p.denied} {
		eventually(t, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: cluster.LeaseName}}, func(*coordinationv1.Lease) error { return nil })
	}
	denied := clientFor(t, everybody["denied cluster"].config)
	testForbiddenEventually(t, "listing works when denied", func() error {
		return denied.List(context.Background(), &workv1.ManifestWorkList{}, client.InNamespace(p.denied))
	})
	for _, x := range slices.Concat(acceptingAndMoving(t, p), reachingOut(t, p), usingClouds(t, p, everybody), importing(t, p, everybody)) {
		t.Run(x.who+" "+x.what, func(t *testing.T) {
			c := clientFor(t, everybody[x.who].config)
			testkit.Eventually(t, func() error {
				err := x.send(c)
				switch {
				case x.want == "":
					return err
				case err == nil:
					t.Fatalf("it is allowed; want a refusal with %q", x.want)
				case !strings.Contains(err.Error(), x.want) || !strings.Contains(err.Error(), "is forbidden"):
					return fmt.Errorf("got %w, want a refusal with %q", err, x.want)
				}
				return nil
			})
		})
	}
}

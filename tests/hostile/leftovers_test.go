package hostile

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
	"github.com/muster-fleet/terraform-provider-muster/internal/testkit/testfleet"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
)

// part is a resource of the hub, or a part of one.
type part struct {
	schema.GroupVersionResource
	sub        string
	namespaced bool
}

// everyPart is all that the hub serves.
func everyPart(t testing.TB) []part {
	t.Helper()
	_, lists, err := testfleet.Clientset(t, hub.Admin).Discovery().ServerGroupsAndResources()
	testkit.Must(t, err)
	var all []part
	seen := map[string]bool{}
	for _, list := range lists {
		version, err := schema.ParseGroupVersion(list.GroupVersion)
		testkit.Must(t, err)
		for _, r := range list.APIResources {
			resource, sub, _ := strings.Cut(r.Name, "/")
			if key := version.Group + " " + r.Name; !seen[key] { // rights don't know versions
				seen[key] = true
				all = append(all, part{version.WithResource(resource), sub, r.Namespaced})
			}
		}
	}
	return all
}

// attempt is a request.
type attempt struct {
	part
	verb string
}

func (a attempt) String() string {
	return strings.TrimSuffix(fmt.Sprintf("%s %s.%s/%s", a.verb, a.Resource, a.Group, a.sub), "/")
}

// everyAttempt are all verbs on all that the hub serves.
func everyAttempt(t testing.TB) []attempt {
	t.Helper()
	var all []attempt
	for _, p := range everyPart(t) {
		verbs := []string{"get", "list", "watch", "create", "update", "patch", "apply", "delete", "deletecollection"}
		if p.sub != "" {
			verbs = []string{"get", "create", "update", "patch", "apply", "delete"}
		}
		for _, verb := range verbs {
			all = append(all, attempt{p, verb})
		}
	}
	return all
}

// request is the attempt in a cluster's namespace or, outside of namespaces, on the object
// of the cluster's name.
func (a attempt) request(ctx context.Context, host, name string) (*http.Request, error) {
	path := "/apis/" + a.Group + "/" + a.Version
	if a.Group == "" {
		path = "/api/v1"
	}
	object := name
	if a.namespaced {
		path, object = path+"/namespaces/"+name, "x"
	}
	path += "/" + a.Resource
	if !slices.Contains([]string{"list", "watch", "deletecollection"}, a.verb) && (a.verb != "create" || a.sub != "") {
		path += "/" + object
	}
	if a.sub != "" {
		path += "/" + a.sub
	}
	query := url.Values{}
	if a.Resource == "managedclusters" && (a.verb == "list" || a.verb == "watch") {
		query.Set("fieldSelector", "metadata.name="+name)
	}
	method, kind, body := http.MethodGet, "application/json", "{}"
	switch a.verb {
	case "watch":
		query.Set("watch", "1")
		query.Set("timeoutSeconds", "1")
	case "create":
		method = http.MethodPost
	case "update":
		method = http.MethodPut
	case "patch":
		method, kind = http.MethodPatch, "application/merge-patch+json"
	case "apply":
		method, kind = http.MethodPatch, "application/apply-patch+yaml"
		query.Set("fieldManager", "hostile")
	case "delete", "deletecollection":
		method, body = http.MethodDelete, `{"apiVersion":"v1","kind":"DeleteOptions","dryRun":["All"]}` // which counts in place of the query
	}
	if method != http.MethodGet {
		query.Set("dryRun", "All")
	}
	r, err := http.NewRequestWithContext(ctx, method, host+path+"?"+query.Encode(), strings.NewReader(body))
	if err == nil {
		r.Header.Set("Content-Type", kind)
	}
	return r, err
}

// is reports whether the attempt uses one of the verbs on a part of a group.
func (a attempt) is(group, resource string, verbs ...string) bool {
	full := strings.TrimSuffix(a.Resource+"/"+a.sub, "/")
	return a.Group == group && full == resource && slices.Contains(verbs, a.verb)
}

// isLeft is all that is left to an identity of a cluster in a state. What is not here has
// to be refused.
func isLeft(who, state string, a attempt) bool {
	switch a.Resource {
	case "selfsubjectreviews", "selfsubjectaccessreviews", "selfsubjectrulesreviews": // who one is, and what one may
		return true
	}
	itself := a.is(cluster.GroupName, "managedclusters", "get", "list", "watch")
	switch who + ", " + state {
	case "agent, denied": // its works, while they are being deleted, which all of none are
		return itself || a.is(work.GroupName, "manifestworks", "get", "list", "update", "patch") || a.is(work.GroupName, "manifestworks/status", "update", "patch")
	case "agent, leaving":
		return itself || a.is(work.GroupName, "manifestworks", "get", "list", "watch", "update", "patch", "apply") ||
			a.is(work.GroupName, "manifestworks/status", "update", "patch", "apply") ||
			a.Resource == "events" && a.sub == "" && slices.Contains([]string{"create", "update", "patch", "apply"}, a.verb)
	case "add-on's certificate, leaving", "service account, leaving", "add-on's token, leaving":
		// What runs before the end of an add-on may need the hub.
		return a.namespaced || a.Resource == "namespaces" && (a.sub != "" || !slices.Contains([]string{"list", "watch", "create", "deletecollection"}, a.verb))
	}
	requests := []string{"create"}
	switch who {
	case "unbound token":
		requests = []string{"create", "get", "list", "watch"}
	case "bound token":
	default:
		return false
	}
	return itself || a.is(cluster.GroupName, "managedclusters", "create") || a.is(certificatesv1.GroupName, "certificatesigningrequests", requests...) ||
		a.is("muster-fleet.io", "clusterregistrations", "create", "get")
}

// Who belongs to a cluster that was denied, deleted, or taken over by another agent
// has nothing left but what is listed, whatever role bindings say.
func TestWhatClustersLeave(t *testing.T) {
	ctx, admin, began := context.Background(), hub.admin(t), time.Now()
	states := map[string]func(name string){
		"denied": func(name string) {
			testkit.Must(t, admin.Patch(ctx, clusterNamed(name, false), mergePatchf(`{"spec":{"hubAcceptsClient":false}}`)))
		},
		"replaced": func(name string) { takenOver(t, name) },
		"deleted": func(name string) {
			testkit.Must(t, admin.Delete(ctx, clusterNamed(name, false)))
			gone(t, name)
		},
		"leaving": func(name string) {
			w := newWork(t, name, "held", &corev1.ConfigMap{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}, ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "x"}})
			w.Finalizers = []string{work.ManifestWorkFinalizer}
			testkit.Must(t, admin.Create(ctx, w))
			t.Cleanup(func() { _ = admin.Patch(ctx, w, mergePatchf(`{"metadata":{"finalizers":null}}`)) })
			testkit.Must(t, admin.Delete(ctx, clusterNamed(name, false)))
		},
	}
	attempts := everyAttempt(t)
	if len(attempts) < 500 {
		t.Fatalf("only %d attempts follow from discovery", len(attempts))
	}
	var asking errgroup.Group
	asking.SetLimit(8)
	for state, change := range states {
		name := "left-" + state
		all := belongings(t, name)
		ended := watchesOf(t, name, all)
		change(name)
		if state == "deleted" { // until the hub has learnt it, the cluster is leaving
			agent := testfleet.Client(t, all["agent"])
			soonRefused(t, "the agent of a deleted cluster reads it", func() error {
				return agent.Get(ctx, types.NamespacedName{Name: name}, clusterNamed(name, false))
			})
		}
		for who, config := range all {
			if !isForJoining(who) {
				mustEnd(t, who+" of a cluster that is "+state, ended[who])
				hasNothing(t, who+" of a cluster that is "+state, config)
			}
			for _, half := range slices.Collect(slices.Chunk(attempts, 100)) {
				asking.Go(func() error { return tryAll(t, name, who, state, config, half) })
			}
		}
	}
	testkit.Must(t, asking.Wait())
	t.Logf("%d attempts by %d identities in %d states took %s", len(attempts), 6, len(states), time.Since(began).Round(time.Second))
}

// tryAll makes attempts, and reports those that should have been refused and were not.
func tryAll(t testing.TB, name, who, state string, config *rest.Config, all []attempt) error {
	transport, err := rest.HTTPClientFor(config)
	if err != nil {
		return err
	}
	for _, a := range all {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		r, err := a.request(ctx, config.Host, name)
		if err == nil {
			var answer *http.Response
			if answer, err = transport.Do(r); err == nil {
				if a.verb != "watch" {
					_, _ = io.Copy(io.Discard, answer.Body)
				}
				_ = answer.Body.Close()
				judge(t, who, state, a, answer.StatusCode)
			}
		}
		cancel()
		if err != nil {
			return fmt.Errorf("%s of a cluster that is %s: %s: %w", who, state, a, err)
		}
	}
	return nil
}

func judge(t testing.TB, who, state string, a attempt, code int) {
	isRefused := code == http.StatusForbidden || code == http.StatusUnauthorized
	reads := a.verb == "get" || a.verb == "list" || a.verb == "watch"
	switch left := isLeft(who, state, a); {
	case left && isRefused && reads && who != "add-on's token" && a.Group != "authorization.k8s.io" && a.Group != "authentication.k8s.io":
		t.Errorf("%s of a cluster that is %s: %s is refused (%d)", who, state, a, code)
	case !left:
		attempts.Add(1)
		if !isRefused {
			t.Errorf("%s of a cluster that is %s: %s is answered with %d", who, state, a, code)
			return
		}
		refusals.Add(1)
	}
}

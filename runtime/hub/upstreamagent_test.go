package hub_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/internal/testenv"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

// upstreamInformers are the caches that upstream's registration and work agents
// fill on the hub, with client-go's ordinary informers and the agent's own
// rights. An upstream agent that can't fill one ends after ten minutes.
func upstreamInformers(t testing.TB, config *rest.Config, name string) map[string]cache.SharedIndexInformer {
	t.Helper()
	objects, err := dynamic.NewForConfig(config)
	must(t, err)
	ctx := t.Context()
	all := map[string]cache.SharedIndexInformer{}
	watch := func(gvr schema.GroupVersionResource, namespace string, tweak func(*metav1.ListOptions)) {
		f := dynamicinformer.NewFilteredDynamicSharedInformerFactory(objects, 10*time.Minute, namespace, tweak)
		all[gvr.Resource] = f.ForResource(gvr).Informer()
		f.Start(ctx.Done())
	}
	watch(clusterv1.GroupVersion.WithResource("managedclusters"), "", func(o *metav1.ListOptions) { o.FieldSelector = "metadata.name=" + name })
	watch(schema.GroupVersionResource{Group: "addon.open-cluster-management.io", Version: "v1beta1", Resource: "managedclusteraddons"}, name, nil)
	watch(workv1.GroupVersion.WithResource("manifestworks"), name, nil)
	requests := informers.NewSharedInformerFactoryWithOptions(clientsetFor(t, config), 10*time.Minute, informers.WithTweakListOptions(func(o *metav1.ListOptions) {
		o.LabelSelector = cluster.NameLabel + "=" + name
	}))
	all["certificatesigningrequests"] = requests.Certificates().V1().CertificateSigningRequests().Informer()
	requests.Start(ctx.Done())
	return all
}

func TestUpstreamAgentsFindAllThatTheyReadAndWrite(t *testing.T) {
	ctx := context.Background()
	name := clusterName(t, "upstream")
	config := joined(t, name, "a")
	agent, k := clientFor(t, config), clientsetFor(t, config)

	for what, informer := range upstreamInformers(t, config, name) {
		testenv.Eventually(t, func() error {
			if !informer.HasSynced() {
				return fmt.Errorf("the cache of %s is not filled", what)
			}
			return nil
		})
	}

	// The lease is read and put back with another time, and nothing else.
	lease := &coordinationv1.Lease{}
	testenv.Eventually(t, func() error {
		return agent.Get(ctx, types.NamespacedName{Namespace: name, Name: "managed-cluster-lease"}, lease)
	})
	if holder := lease.Spec.HolderIdentity; holder == nil || *holder != "managed-cluster-lease" || lease.Labels[cluster.NameLabel] != name {
		t.Errorf("the lease is %+v", lease)
	}
	lease.Spec.RenewTime = &metav1.MicroTime{Time: time.Now()}
	must(t, agent.Update(ctx, lease))
	waitForCluster(t, name, hasCondition(cluster.ConditionClockSynced, metav1.ConditionTrue, "ManagedClusterClockSynced"))

	// The status is a merge patch that carries the object's identity and version.
	// A stale one has to fail.
	patch := func(version string) error {
		mc := newCluster(name)
		must(t, agent.Get(ctx, types.NamespacedName{Name: name}, mc))
		if version == "" {
			version = mc.ResourceVersion
		}
		body, err := json.Marshal(map[string]any{
			"metadata": map[string]any{"uid": mc.UID, "resourceVersion": version},
			"status":   map[string]any{"version": map[string]any{"kubernetes": "v1.35.4"}, "capacity": map[string]any{"cpu": "4"}},
		})
		must(t, err)
		return agent.Status().Patch(ctx, newCluster(name), client.RawPatch(types.MergePatchType, body))
	}
	testenv.Eventually(t, func() error { return patch("") })
	if err := patch("1"); err == nil {
		t.Error("a stale report was taken")
	}
	mustBeForbidden(t, "patching its ManagedCluster", agent.Patch(ctx, newCluster(name), client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"a":"b"}}}`))))

	// Events are only created.
	e := &eventsv1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: name + ".17b1c8a3d6f0e1a2"}, EventTime: metav1.NowMicro(),
		ReportingController: "klusterlet-agent", ReportingInstance: "klusterlet-agent-x", Action: "Available", Reason: "Available", Type: corev1.EventTypeNormal,
		Regarding: corev1.ObjectReference{APIVersion: "cluster.open-cluster-management.io/v1", Kind: "ManagedCluster", Name: name, Namespace: name},
		Note:      "The " + name + " is successfully imported, and it is managed by the hub cluster. Its apieserver is available",
	}
	_, err := k.EventsV1().Events(name).Create(ctx, e, metav1.CreateOptions{})
	must(t, err)

	// The work agent takes a work, reports, and lets it go.
	w := newWork(configMapManifest("a"))
	w.Namespace, w.Name = name, "w"
	must(t, clientFor(t, admin).Create(ctx, w))
	must(t, agent.Patch(ctx, w, client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"uid":%q,"resourceVersion":%q,"finalizers":[%q]}}`, w.UID, w.ResourceVersion, work.ManifestWorkFinalizer))))
	must(t, agent.Status().Patch(ctx, w, client.RawPatch(types.MergePatchType, []byte(`{"status":{"conditions":[{"type":"Applied","status":"True","reason":"AppliedManifestWorkComplete","message":"Apply manifest work complete","lastTransitionTime":"2026-01-01T00:00:00Z"}]}}`))))
	must(t, clientFor(t, admin).Delete(ctx, w))
	must(t, agent.Patch(ctx, w, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))))
	waitGone(t, w)

	// Renewal: the request has a generated name, and is approved in the words
	// that upstream's tests look for.
	r, _ := certificateRequest(t, name, "a")
	must(t, agent.Create(ctx, r))
	certificate(t, r.Name)
	got, err := clientsetFor(t, admin).CertificatesV1().CertificateSigningRequests().Get(ctx, r.Name, metav1.GetOptions{})
	must(t, err)
	for _, c := range got.Status.Conditions {
		if c.Type == certificatesv1.CertificateApproved && (c.Reason != "AutoApprovedByHubCSRApprovingController" || c.Message != "Auto approving Managed cluster agent certificate after SubjectAccessReview.") {
			t.Errorf("approved with %+v", c)
		}
	}
}

package memcluster_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/internal/restmapper"
	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/crds"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/definitions"
	"github.com/muster-fleet/terraform-provider-muster/tests/scale/memcluster"
)

func connect(t *testing.T, c *memcluster.Cluster) client.WithWatch {
	t.Helper()
	connected, err := client.NewWithWatch(c.Config(), client.Options{Scheme: api.Scheme(), Mapper: restmapper.Static()})
	testkit.Must(t, err)
	return connected
}

// What an object goes through is what a real API server would do with it.
func TestObject(t *testing.T) {
	ctx, c := t.Context(), connect(t, memcluster.New())
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "key", Finalizers: []string{"example.com/hold"}},
		StringData: map[string]string{"a": "b"},
	}
	testkit.Must(t, c.Create(ctx, secret))
	again := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "key"}}
	if err := c.Create(ctx, again); !apierrors.IsAlreadyExists(err) {
		t.Errorf("created twice: %v", err)
	}
	stale := secret.DeepCopy()
	secret.Labels = map[string]string{"x": "1"}
	testkit.Must(t, c.Update(ctx, secret))
	if err := c.Update(ctx, stale); !apierrors.IsConflict(err) {
		t.Errorf("updated what had changed: %v", err)
	}
	patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"x":null,"y":"2"}}}`))
	testkit.Must(t, c.Patch(ctx, secret, patch))
	if _, kept := secret.Labels["x"]; kept || secret.Labels["y"] != "2" {
		t.Errorf("labels after the patch: %v", secret.Labels)
	}
	testkit.Must(t, c.Delete(ctx, secret))
	testkit.Must(t, c.Get(ctx, client.ObjectKeyFromObject(secret), secret))
	if secret.DeletionTimestamp == nil {
		t.Error("an object with a finalizer is not marked as deleted")
	}
	secret.Finalizers = nil
	testkit.Must(t, c.Update(ctx, secret))
	if err := c.Get(ctx, client.ObjectKeyFromObject(secret), secret); !apierrors.IsNotFound(err) {
		t.Errorf("an object without its last finalizer is still there: %v", err)
	}
}

// A status is written for itself.
func TestStatus(t *testing.T) {
	cluster := memcluster.New()
	kinds, err := crds.ManagedCluster()
	testkit.Must(t, err)
	testkit.Must(t, definitions.Install(t.Context(), cluster.Config(), kinds))
	ctx, c := t.Context(), connect(t, cluster)
	w := &workv1.AppliedManifestWork{ObjectMeta: metav1.ObjectMeta{Name: "w"}}
	w.Spec.ManifestWorkName = "first"
	testkit.Must(t, c.Create(ctx, w))
	w.Spec.ManifestWorkName = "second"
	w.Status.AppliedResources = []workv1.AppliedManifestResourceMeta{{Version: "v1", UID: "u"}}
	testkit.Must(t, c.Status().Update(ctx, w))
	testkit.Must(t, c.Get(ctx, client.ObjectKeyFromObject(w), w))
	if w.Spec.ManifestWorkName != "first" || len(w.Status.AppliedResources) != 1 || w.Generation != 1 {
		t.Errorf("after a write of the status: %s, %d resources, generation %d",
			w.Spec.ManifestWorkName, len(w.Status.AppliedResources), w.Generation)
	}
	w.Spec.ManifestWorkName = "second"
	w.Status.AppliedResources = nil
	testkit.Must(t, c.Update(ctx, w))
	if w.Spec.ManifestWorkName != "second" || len(w.Status.AppliedResources) != 1 || w.Generation != 2 {
		t.Errorf("after a write of the spec: %s, %d resources, generation %d",
			w.Spec.ManifestWorkName, len(w.Status.AppliedResources), w.Generation)
	}
}

// A certificate request is signed once it is approved, as its maker is known.
func TestCertificateRequest(t *testing.T) {
	ctx, c := t.Context(), connect(t, memcluster.New())
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	testkit.Must(t, err)
	asked, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{
		Subject: pkix.Name{CommonName: "jo"},
	}, key)
	testkit.Must(t, err)
	r := &certificatesv1.CertificateSigningRequest{ObjectMeta: metav1.ObjectMeta{Name: "r"}}
	r.Spec.Request = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: asked})
	r.Spec.ExpirationSeconds = ptr.To[int32](600)
	tried := r.DeepCopy()
	testkit.Must(t, c.Create(ctx, tried, client.DryRunAll))
	if err := c.Get(ctx, client.ObjectKeyFromObject(r), r); !apierrors.IsNotFound(err) || tried.Spec.Username == "" {
		t.Errorf("a dry run by %q has stored something: %v", tried.Spec.Username, err)
	}
	testkit.Must(t, c.Create(ctx, r))
	if r.Spec.Username != tried.Spec.Username || len(r.Status.Certificate) > 0 {
		t.Errorf("the request of %q is signed before it is approved: %s", r.Spec.Username, r.Status.Certificate)
	}
	r.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{
		Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue,
	}}
	testkit.Must(t, c.SubResource("approval").Update(ctx, r))
	testkit.Must(t, c.Get(ctx, client.ObjectKeyFromObject(r), r))
	block, _ := pem.Decode(r.Status.Certificate)
	if block == nil {
		t.Fatalf("the approved request is not signed: %+v", r.Status)
	}
	leaf, err := x509.ParseCertificate(block.Bytes)
	testkit.Must(t, err)
	left := time.Until(leaf.NotAfter)
	if leaf.Subject.CommonName != "jo" || left > 10*time.Minute || left < 9*time.Minute {
		t.Errorf("the certificate is for %s, until %s", leaf.Subject, leaf.NotAfter)
	}
}

// A watch goes on where a list has ended, and sees objects come into its selection and
// leave it.
func TestWatch(t *testing.T) {
	cluster := memcluster.New()
	ctx, c := t.Context(), connect(t, cluster.Copy())
	list := &corev1.ConfigMapList{}
	testkit.Must(t, c.List(ctx, list))
	m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Namespace: "default", Name: "m", Labels: map[string]string{"in": "no"},
	}}
	testkit.Must(t, c.Create(ctx, m))
	events, err := c.Watch(ctx, &corev1.ConfigMapList{}, client.MatchingLabels{"in": "yes"},
		&client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: list.ResourceVersion}})
	testkit.Must(t, err)
	defer events.Stop()
	for _, step := range []struct {
		in   string
		want watch.EventType
	}{{"yes", watch.Added}, {"no", watch.Deleted}} {
		m.Labels["in"] = step.in
		testkit.Must(t, c.Update(ctx, m))
		if e := <-events.ResultChan(); e.Type != step.want || e.Object.(*corev1.ConfigMap).Name != "m" {
			t.Errorf("with the label %q: %s of %v, want %s", step.in, e.Type, e.Object, step.want)
		}
	}
	if err := connect(t, cluster).Get(ctx, client.ObjectKeyFromObject(m), m); !apierrors.IsNotFound(err) {
		t.Errorf("what a copy got is in the original: %v", err)
	}
}

// A watch that asks for what there is begins with that, whatever version it knows.
func TestWatchBeginsWithWhatThereIs(t *testing.T) {
	ctx, c := t.Context(), connect(t, memcluster.New())
	m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "m"}}
	testkit.Must(t, c.Create(ctx, m))
	for _, version := range []string{"", m.ResourceVersion} {
		events, err := c.Watch(ctx, &corev1.ConfigMapList{}, &client.ListOptions{Raw: &metav1.ListOptions{
			ResourceVersion: version, ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan,
			SendInitialEvents: ptr.To(true), AllowWatchBookmarks: true,
		}})
		testkit.Must(t, err)
		if e := <-events.ResultChan(); e.Type != watch.Added || e.Object.(*corev1.ConfigMap).Name != "m" {
			t.Errorf("from version %q: %s of %v, want what there is", version, e.Type, e.Object)
		}
		e := <-events.ResultChan()
		if o, ok := e.Object.(*corev1.ConfigMap); e.Type != watch.Bookmark || !ok ||
			o.Annotations[metav1.InitialEventsAnnotationKey] != "true" {
			t.Errorf("from version %q: %s of %v, want the mark after what there is", version, e.Type, e.Object)
		}
		events.Stop()
	}
}

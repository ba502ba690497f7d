package admission

import (
	"cmp"
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/client-go/tools/cache"
	"k8s.io/kubernetes/pkg/apis/certificates"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1beta2 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta2"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

// decided is an authorizer that says the same to everything.
func decided(allow bool) *server {
	return &server{authorizer: authorizer.AuthorizerFunc(func(context.Context, authorizer.Attributes) (authorizer.Decision, string, error) {
		if allow {
			return authorizer.DecisionAllow, "", nil
		}
		return authorizer.DecisionNoOpinion, "", nil
	})}
}

// object reads what a client may send; nil when it isn't even an object.
func object(data []byte) *unstructured.Unstructured {
	var m map[string]any
	if err := utiljson.Unmarshal(data, &m); err != nil || m == nil {
		return nil
	}
	return &unstructured.Unstructured{Object: m}
}

func attributes(now, before *unstructured.Unstructured, resource schema.GroupVersionResource, groups ...string) admission.Attributes {
	op, old := admission.Create, runtime.Object(nil)
	if before != nil {
		op, old = admission.Update, before
	}
	who := &user.DefaultInfo{Name: "somebody", Groups: groups}
	return admission.NewAttributesRecord(now, old, schema.GroupVersionKind{}, now.GetNamespace(), now.GetName(), resource, "", op, nil, false, who)
}

func as[T any](t *testing.T, u *unstructured.Unstructured) T {
	t.Helper()
	var out T
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &out); err != nil {
		t.Fatalf("what was let in can't be read: %v", err)
	}
	return out
}

// newCertificateRequests is the plugin with some requests in its cache.
func newCertificateRequests(there ...*certificatesv1.CertificateSigningRequest) certificateRequests {
	indexer := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{byCluster: clusterOf})
	for _, r := range there {
		if err := indexer.Add(r); err != nil {
			panic(err)
		}
	}
	limits := newRequestLimits(clocktesting.NewFakePassiveClock(time.Unix(0, 0)))
	limits.indexer = indexer
	return certificateRequests{requestLimits: limits}
}

// mustExplain fails when a refusal is not one that a client can understand.
func mustExplain(t *testing.T, err error) {
	t.Helper()
	if !apierrors.IsBadRequest(err) && !apierrors.IsForbidden(err) {
		t.Errorf("refused with %T: %v", err, err)
	}
}

func FuzzManagedClusterSetBinding(f *testing.F) {
	for _, seed := range []string{
		`{"metadata":{"namespace":"a","name":"blue"},"spec":{"clusterSet":"blue"}}`,
		`{"metadata":{"namespace":"a","name":"blue"},"spec":{"clusterSet":"red"}}`,
		`{"metadata":{"name":""},"spec":{}}`, `{"spec":[]}`, `{"metadata":{"name":1}}`,
	} {
		f.Add([]byte(seed), true, false)
		f.Add([]byte(seed), false, false)
		f.Add([]byte(seed), false, true)
	}
	f.Fuzz(func(t *testing.T, data []byte, allow, update bool) {
		now := object(data)
		if now == nil {
			return
		}
		before := (*unstructured.Unstructured)(nil)
		if update {
			before = now.DeepCopy()
		}
		p := &setBindings{server: decided(allow)}
		if err := p.Validate(context.Background(), attributes(now, before, clusterv1beta2.GroupVersion.WithResource("managedclustersetbindings")), nil); err != nil {
			mustExplain(t, err)
			return
		}
		b := as[clusterv1beta2.ManagedClusterSetBinding](t, now)
		if b.Name != b.Spec.ClusterSet {
			t.Errorf("the binding %q binds %q", b.Name, b.Spec.ClusterSet)
		}
		if !allow && !update {
			t.Error("bound by one who may not")
		}
	})
}

func FuzzManifestWork(f *testing.F) {
	const good = `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","namespace":"b"}}`
	for _, seed := range []string{
		`{"spec":{"workload":{"manifests":[` + good + `]}}}`,
		`{"spec":{"workload":{"manifests":[` + good + `,` + good + `]}}}`,
		`{"spec":{"workload":{"manifests":[` + good + `]},"executor":{"subject":{"type":"ServiceAccount","serviceAccount":{"namespace":"a","name":"b"}}}}}`,
		`{"spec":{"workload":{"manifests":[{"apiVersion":"v1","kind":"ConfigMap","metadata":{"generateName":"a"}}]}}}`,
		`{"spec":{"workload":{"manifests":[1,"x",null,[]]}}}`, `{"spec":{"workload":{}}}`, `{"spec":{"executor":{}}}`, `{}`,
		`{"metadata":{"deletionTimestamp":"2026-01-01T00:00:00Z"}}`,
	} {
		f.Add([]byte(seed), []byte(nil), true)
		f.Add([]byte(seed), []byte(nil), false)
		f.Add([]byte(seed), []byte(seed), false)
	}
	f.Fuzz(func(t *testing.T, data, oldData []byte, allow bool) {
		now, before := object(data), object(oldData)
		if now == nil {
			return
		}
		p := &manifestWorks{executors: executors{server: decided(allow)}, limit: work.DefaultManifestLimit}
		if err := p.Validate(context.Background(), attributes(now, before, workv1.GroupVersion.WithResource("manifestworks")), nil); err != nil {
			mustExplain(t, err)
			return
		}
		w := as[workv1.ManifestWork](t, now)
		var was workv1.ManifestWork
		if before != nil {
			was = as[workv1.ManifestWork](t, before)
		}
		if e := w.Spec.Executor; w.DeletionTimestamp == nil && !allow && e != nil && e.Subject.ServiceAccount != nil && !equality.Semantic.DeepEqual(w.Spec, was.Spec) {
			t.Error("executes as another by one who may not")
		}
		if w.DeletionTimestamp != nil || before != nil && equality.Semantic.DeepEqual(w.Spec.Workload, was.Spec.Workload) {
			return // what is in the works of before may stay
		}
		if len(w.Spec.Workload.Manifests) == 0 {
			t.Error("let in without manifests")
		}
		size := 0
		for _, m := range w.Spec.Workload.Manifests {
			size += len(m.Raw)
			var o struct{ Metadata metav1.ObjectMeta }
			if err := json.Unmarshal(m.Raw, &o); err == nil && o.Metadata.Name == "" {
				t.Errorf("let in without a name: %s", m.Raw)
			}
		}
		if size > 500*1024 {
			t.Errorf("let in with %d bytes", size)
		}
	})
}

func FuzzBoundToken(f *testing.F) {
	for _, c := range []string{"paris", "rome", "paris-2"} {
		_, request := testkit.CertificateRequest(f, cluster.CommonName(c, "a"), cluster.Group(c))
		f.Add("paris", c, c+"-x", "", request)
		f.Add("paris", "paris", "", c+"-", request)
		f.Add("paris", "paris", c+"-x", "paris-", request)
	}
	f.Add("", "", "", "", []byte(nil))
	f.Fuzz(func(t *testing.T, bound, label, name, generateName string, data []byte) {
		if bound == "" || strings.Contains(bound, ",") {
			return
		}
		request := &certificates.CertificateSigningRequest{
			ObjectMeta: metav1.ObjectMeta{Name: name, GenerateName: generateName, Labels: map[string]string{cluster.NameLabel: label}},
			Spec:       certificates.CertificateSigningRequestSpec{SignerName: "kubernetes.io/kube-apiserver-client", Request: data},
		}
		who := &user.DefaultInfo{Name: "system:bootstrap:abcdef", Groups: []string{cluster.BoundBootstrapGroup(bound)}}
		a := admission.NewAttributesRecord(request, nil, schema.GroupVersionKind{}, "", name,
			schema.GroupVersionResource{Group: "certificates.k8s.io", Version: "v1", Resource: "certificatesigningrequests"}, "", admission.Create, nil, false, who)
		if err := newCertificateRequests().Validate(context.Background(), a, nil); err != nil {
			mustExplain(t, err)
			return
		}
		identity, err := cluster.ParseRequest(request.Labels, request.Spec.SignerName, data)
		if err != nil || identity.Cluster != bound || label != bound {
			t.Errorf("a token for %q has asked for %+v (%v)", bound, identity, err)
		}
		if made := cmp.Or(name, generateName); !strings.HasPrefix(made, (bound + "-")[:min(len(bound)+1, 58)]) {
			t.Errorf("a token for %q has made the request %q", bound, made)
		}
	})
}

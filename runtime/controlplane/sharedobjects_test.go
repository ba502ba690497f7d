package controlplane_test

import (
	"errors"
	"testing"
	"unsafe"

	certificatesv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
)

// What informers read is, but for managed fields, what the API says, and is in memory once.
func TestObjectsAreShared(t *testing.T) {
	config := shared.RESTConfig("test")
	c, err := client.New(config, client.Options{Scheme: scheme.Scheme})
	testkit.Must(t, err)
	named := func(name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{
			Name: name, Namespace: metav1.NamespaceDefault,
			Labels: map[string]string{"example.org/a": "b"}, Annotations: map[string]string{"example.org/c": "d"},
		}
	}
	global := func(name string) metav1.ObjectMeta {
		m := named(name)
		m.Namespace = ""
		return m
	}
	rules := []rbacv1.PolicyRule{{
		Verbs: []string{"get"}, APIGroups: []string{"a"}, Resources: []string{"b"}, ResourceNames: []string{"c"},
	}}
	subjects := []rbacv1.Subject{{Kind: rbacv1.GroupKind, APIGroup: rbacv1.GroupName, Name: "g"}}
	ref := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "shared"}
	_, request := testkit.CertificateRequest(t, "jo")
	holder, seconds := "me", int32(3)
	for name, o := range map[string]client.Object{
		"a namespace": &corev1.Namespace{ObjectMeta: global("shared")},
		"a secret": &corev1.Secret{
			ObjectMeta: named("shared"), Data: map[string][]byte{"a": []byte("b")},
		},
		"a role":         &rbacv1.Role{ObjectMeta: named("shared"), Rules: rules},
		"a role binding": &rbacv1.RoleBinding{ObjectMeta: named("shared"), Subjects: subjects, RoleRef: ref},
		"a cluster role": &rbacv1.ClusterRole{ObjectMeta: global("shared"), Rules: rules},
		"a cluster role binding": &rbacv1.ClusterRoleBinding{
			ObjectMeta: global("shared"), Subjects: subjects, RoleRef: ref,
		},
		"a lease": &coordinationv1.Lease{ObjectMeta: named("shared"), Spec: coordinationv1.LeaseSpec{
			HolderIdentity: &holder, LeaseDurationSeconds: &seconds,
		}},
		"a certificate request": &certificatesv1.CertificateSigningRequest{
			ObjectMeta: global("shared"),
			Spec: certificatesv1.CertificateSigningRequestSpec{
				Request: request, SignerName: "example.org/signer",
				Usages: []certificatesv1.KeyUsage{certificatesv1.UsageClientAuth},
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			testkit.Must(t, c.Create(t.Context(), o))
			defer func() { testkit.Must(t, c.Delete(t.Context(), o)) }()
			first := sharedOnce(t, c, o)
			second := sharedOnce(t, c, o)
			if a, b := unsafe.StringData(first.GetName()), unsafe.StringData(second.GetName()); a != b {
				t.Error("the names of two copies are two strings")
			}
			old := o.DeepCopyObject().(client.Object)
			o.SetLabels(map[string]string{"example.org/a": "e"})
			testkit.Must(t, c.Update(t.Context(), o))
			if got := sharedOnce(t, c, o); got.GetLabels()["example.org/a"] != "e" {
				t.Errorf("after a change there is %v", got)
			}
			got, err := shared.Shared(old)
			if err != nil || got != any(old) || old.GetLabels()["example.org/a"] != "b" {
				t.Errorf("what is older than in memory has become %v, %v", got, err)
			}
		})
	}
	for _, other := range []any{
		"text", cache.DeletedFinalStateUnknown{Key: "a"}, &metav1.PartialObjectMetadata{ObjectMeta: named("x")},
		&rbacv1.Role{ObjectMeta: named("absent")},
	} {
		if got, err := shared.Shared(other); err != nil || !equality.Semantic.DeepEqual(got, other) {
			t.Errorf("%v has become %v, %v", other, got, err)
		}
	}
}

// sharedOnce reads an object and returns what an informer keeps of it, once the watch cache has
// it, too.
func sharedOnce(t *testing.T, c client.Client, o client.Object) client.Object {
	t.Helper()
	var kept client.Object
	testkit.EventuallyThat(t, "it is in memory", func() error {
		read := o.DeepCopyObject().(client.Object)
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(o), read); err != nil {
			return err
		}
		transformed, err := shared.Shared(read)
		if err != nil {
			return err
		}
		if transformed == any(read) {
			return errors.New("the watch cache is behind")
		}
		kept = transformed.(client.Object)
		want := read.DeepCopyObject().(client.Object)
		want.SetManagedFields(nil)
		want.GetObjectKind().SetGroupVersionKind(kept.GetObjectKind().GroupVersionKind())
		if !equality.Semantic.DeepEqual(runtime.Object(kept), runtime.Object(want)) {
			t.Errorf("it has become %v, and was %v", kept, want)
		}
		return nil
	})
	return kept
}

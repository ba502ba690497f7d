package devcluster

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
	"github.com/muster-fleet/terraform-provider-muster/runtime/access"
)

// What user access needs of a cluster: certificates with the lifetime that was asked
// for, and API servers that know their users and groups by them.
func TestClientCertificatesLiveAsLongAsAsked(t *testing.T) {
	admin := adminOf(t, shared)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	testkit.Must(t, err)
	request, err := access.NewRequest(key, "0123abcd", "jo")
	testkit.Must(t, err)
	hash, err := access.KeyHash(key.Public())
	testkit.Must(t, err)
	requests := admin.CertificatesV1().CertificateSigningRequests()
	csr, err := requests.Create(t.Context(), &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "jo-"},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			Request: request, SignerName: certificatesv1.KubeAPIServerClientSignerName, ExpirationSeconds: ptr.To[int32](600),
			Usages: []certificatesv1.KeyUsage{certificatesv1.UsageClientAuth, certificatesv1.UsageDigitalSignature},
		},
	}, metav1.CreateOptions{})
	testkit.Must(t, err)
	csr.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: "Test"}}
	_, err = requests.UpdateApproval(t.Context(), csr.Name, csr, metav1.UpdateOptions{})
	testkit.Must(t, err)
	testkit.EventuallyThat(t, "the certificate is signed", func() error {
		if csr, err = requests.Get(t.Context(), csr.Name, metav1.GetOptions{}); err == nil && len(csr.Status.Certificate) == 0 {
			err = errors.New("it is not")
		}
		return err
	})
	leaf, err := access.ReadCertificate(csr.Status.Certificate, "0123abcd", "jo", hash)
	testkit.Must(t, err)
	if left := time.Until(leaf.NotAfter); left > 10*time.Minute+5*time.Second || left < 9*time.Minute {
		t.Errorf("valid for %s, want 10 minutes", left)
	}
	keyDER, err := x509.MarshalECPrivateKey(key)
	testkit.Must(t, err)
	keyPEM := pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: keyDER})
	user, err := kubernetes.NewForConfig(&rest.Config{Host: shared.URL, TLSClientConfig: rest.TLSClientConfig{
		CAData: shared.server.CAData, CertData: csr.Status.Certificate, KeyData: keyPEM,
	}})
	testkit.Must(t, err)
	me, err := user.AuthenticationV1().SelfSubjectReviews().Create(t.Context(), &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	testkit.Must(t, err)
	if info := me.Status.UserInfo; info.Username != "muster:0123abcd:jo" || fmt.Sprint(info.Groups) != fmt.Sprint([]string{access.KeyGroup(hash), "system:authenticated"}) {
		t.Errorf("the cluster knows the user as %+v", info)
	}
}

func TestQuotasLimitNamespaces(t *testing.T) {
	client := adminOf(t, shared)
	ns := newNamespace(t, client)
	quotas := client.CoreV1().ResourceQuotas(ns)
	_, err := quotas.Create(t.Context(), &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Name: "q"},
		Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{"pods": resource.MustParse("1"), "limits.cpu": resource.MustParse("1")}},
	}, metav1.CreateOptions{})
	testkit.Must(t, err)
	testkit.EventuallyThat(t, "the quota is counted", func() error {
		q, err := quotas.Get(t.Context(), "q", metav1.GetOptions{})
		if err == nil && len(q.Status.Hard) == 0 {
			err = errors.New("it is not")
		}
		return err
	})
	pod := func(name, cpu string) error {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: podTemplate().Spec}
		if cpu != "" {
			p.Spec.Containers[0].Resources.Limits = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}
		}
		_, err := client.CoreV1().Pods(ns).Create(t.Context(), p, metav1.CreateOptions{})
		return err
	}
	for _, x := range []struct {
		name, cpu string
		forbidden bool
	}{{"without-limits", "", true}, {"too-large", "2", true}, {"fits", "500m", false}, {"one-too-many", "100m", true}} {
		if err := pod(x.name, x.cpu); apierrors.IsForbidden(err) != x.forbidden || !x.forbidden && err != nil {
			t.Errorf("the pod %s: %v", x.name, err)
		}
	}
	// What is deleted counts no more.
	testkit.Must(t, client.CoreV1().Pods(ns).Delete(t.Context(), "fits", metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)}))
	testkit.EventuallyThat(t, "there is room again", func() error { return pod("next", "500m") })
}

package access_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/muster-fleet/terraform-provider-muster/internal/hubinfo"
	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
	"github.com/muster-fleet/terraform-provider-muster/internal/testkit/testhub"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/acctest"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/kube"
	"github.com/muster-fleet/terraform-provider-muster/runtime/access"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/crds"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/kinds"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/definitions"
)

// playedHubID is the short name of the hub whose controllers and agents the tests
// play.
const playedHubID = "0123abcd"

// played is a hub without controllers for user access, so that tests can have it
// answer as they want. The tests of the whole system have the real ones.
var played struct {
	once sync.Once
	hub  *testhub.Process
	err  error
}

// playedHub is a workspace at the hub, and somebody else there. Requests for the
// cluster paris and rome get a certificate, for eks a token, for lost a refusal, and
// for slow nothing.
func playedHub(t *testing.T) (*acctest.Terraform, *acctest.Outsider) {
	t.Helper()
	w := acctest.NewTerraform(t)
	played.once.Do(func() { played.hub, played.err = startPlayed(t.Context()) })
	testkit.Must(t, played.err)
	someone := acctest.OutsiderOf(t, played.hub)
	info := &corev1.ConfigMap{Data: map[string]string{hubinfo.FeaturesKey: hubinfo.UserAccess, hubinfo.HubIDKey: playedHubID}}
	info.Namespace, info.Name = metav1.NamespacePublic, hubinfo.Name
	someone.Apply(info)
	w.Setenv("MUSTER_KUBECONFIG", played.hub.Kubeconfig)
	play(t, someone)
	return w, someone
}

func startPlayed(ctx context.Context) (*testhub.Process, error) {
	program, err := acctest.Acc.Builder.Path(acctest.Acc.Dir)
	if err != nil {
		return nil, err
	}
	hub, err := testhub.StartHub(program, filepath.Join(acctest.Acc.Dir, "played"), "--feature-gates", "UserAccess=false")
	if err != nil {
		return nil, err
	}
	config, err := clientcmd.BuildConfigFromFlags("", hub.Kubeconfig)
	if err != nil {
		return nil, err
	}
	served, err := crds.Gated(kinds.HubWithUserAccess)
	if err != nil {
		return nil, err
	}
	return hub, definitions.Install(ctx, config, served)
}

// play answers requests as hub and agents do, until the test ends.
func play(t *testing.T, someone *acctest.Outsider) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = someone.Client.WaitObjects(ctx, &v1alpha1.AccessRequestList{}, &v1alpha1.AccessRequest{}, kube.ListOptions{}, func(objects map[string]kube.Object) (bool, error) {
			for _, object := range objects {
				request, ok := object.(*v1alpha1.AccessRequest)
				if !ok || len(request.Status.Conditions) > 0 || request.Spec.ManagedCluster == "slow" || userOf(request.Spec.Request) == silent {
					continue
				}
				answer(t, request)
				if err := someone.Client.UpdateSubresource(ctx, request, "status", acctest.OutsiderManager); err != nil && ctx.Err() == nil {
					t.Logf("answer %s: %v", request.Name, err)
				}
			}
			return false, nil
		})
	}()
	t.Cleanup(func() { cancel(); <-ended })
}

// silent is a user whose requests get no answer.
const silent = "silent"

// userOf is the user that a certificate request names.
func userOf(request []byte) string {
	if block, _ := pem.Decode(request); block != nil {
		if csr, err := x509.ParseCertificateRequest(block.Bytes); err == nil {
			return csr.Subject.CommonName[strings.LastIndex(csr.Subject.CommonName, ":")+1:]
		}
	}
	return ""
}

// answer is what becomes of a request.
func answer(t *testing.T, request *v1alpha1.AccessRequest) {
	set := func(kind string, status metav1.ConditionStatus, reason, message string) {
		request.Status.Conditions = append(request.Status.Conditions, metav1.Condition{
			Type: kind, Status: status, Reason: reason, Message: message, LastTransitionTime: metav1.Now(),
		})
	}
	if request.Spec.ManagedCluster == "lost" {
		set(muster.ConditionApproved, metav1.ConditionFalse, muster.ReasonRefusedByPolicy, "nobody gets in here")
		return
	}
	life := time.Duration(request.Spec.ExpirationSeconds) * time.Second
	if life == 0 {
		life = 8 * time.Hour
	}
	begin, end := metav1.NewTime(time.Now().Add(-time.Minute).Truncate(time.Second)), metav1.NewTime(time.Now().Add(life).Truncate(time.Second))
	request.Status.NotBefore, request.Status.NotAfter = &begin, &end
	request.Status.Endpoints = []v1alpha1.Endpoint{{URL: "https://" + request.Spec.ManagedCluster + ".example.com:6443", CABundle: []byte("authority")}}
	set(muster.ConditionApproved, metav1.ConditionTrue, "Granted", "a grant names the user")
	set(muster.ConditionIssued, metav1.ConditionTrue, "Issued", "the cluster has answered")
	var err error
	if request.Spec.ManagedCluster == "eks" || request.Spec.Mode == v1alpha1.AccessToken {
		request.Status.SealedToken, err = access.Seal(request.Spec.SealTo, []byte("sesame"), string(request.UID))
	} else {
		request.Status.Certificate, err = sign(request.Spec.Request, begin.Time, end.Time)
	}
	if err != nil {
		t.Errorf("answer %s: %v", request.Name, err)
	}
}

// sign is a cluster's signer.
func sign(request []byte, begin, end time.Time) ([]byte, error) {
	block, _ := pem.Decode(request)
	csr, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return nil, err
	}
	authority, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: csr.Subject, NotBefore: begin, NotAfter: end}
	der, err := x509.CreateCertificate(rand.Reader, template, template, csr.PublicKey, authority)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), err
}

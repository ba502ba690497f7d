package access_test

import (
	"fmt"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
)

// issued waits until a credential is issued, and its request is gone.
func (f *fixture) issued(c *v1alpha1.ClusterCredential) {
	f.t.Helper()
	f.eventually(func() error {
		if err := f.isIssued(c); err != nil {
			return err
		}
		return f.hasNoRequest(c)
	})
}

func (f *fixture) isIssued(c *v1alpha1.ClusterCredential) error {
	f.must(f.Get(f.ctx, client.ObjectKeyFromObject(c), c))
	if !meta.IsStatusConditionTrue(c.Status.Conditions, muster.ConditionIssued) || meta.IsStatusConditionTrue(c.Status.Conditions, muster.ConditionFailed) {
		return fmt.Errorf("not issued: %+v", c.Status.Conditions)
	}
	return nil
}

// refused waits until a credential has failed for a reason, holds nothing, and its
// request is gone.
func (f *fixture) refused(c *v1alpha1.ClusterCredential, reason, words string) {
	f.t.Helper()
	f.eventually(func() error {
		if err := f.isRefused(c, reason, words); err != nil {
			return err
		}
		return f.hasNoRequest(c)
	})
}

func (f *fixture) isRefused(c *v1alpha1.ClusterCredential, reason, words string) error {
	f.must(f.Get(f.ctx, client.ObjectKeyFromObject(c), c))
	failed := meta.FindStatusCondition(c.Status.Conditions, muster.ConditionFailed)
	switch {
	case failed == nil || failed.Status != metav1.ConditionTrue || failed.Reason != reason || !strings.Contains(failed.Message, words):
		return fmt.Errorf("the condition Failed is %+v, want the reason %s with %q", failed, reason, words)
	case meta.IsStatusConditionTrue(c.Status.Conditions, muster.ConditionIssued) || len(c.Status.Certificate)+len(c.Status.SealedToken) > 0:
		return fmt.Errorf("something was issued: %+v", c.Status)
	}
	return nil
}

func (f *fixture) hasNoRequest(c *v1alpha1.ClusterCredential) error {
	r := &certificatesv1.CertificateSigningRequest{}
	err := f.Get(f.ctx, types.NamespacedName{Name: c.Name}, r)
	if apierrors.IsNotFound(err) {
		return nil
	}
	return fmt.Errorf("the certificate request %s is still there (%v): %+v", c.Name, err, r.Status.Conditions)
}

// request waits for the certificate request of a credential to be as wanted.
func (f *fixture) request(c *v1alpha1.ClusterCredential, want func(*certificatesv1.CertificateSigningRequest) bool) *certificatesv1.CertificateSigningRequest {
	f.t.Helper()
	r := &certificatesv1.CertificateSigningRequest{}
	f.eventually(func() error {
		if err := f.Get(f.ctx, types.NamespacedName{Name: c.Name}, r); err != nil {
			return err
		}
		if !want(r) {
			return fmt.Errorf("the certificate request is %+v, with %+v", r.Spec, r.Status)
		}
		return nil
	})
	return r
}

// waits waits until a credential says what it waits for.
func (f *fixture) waits(c *v1alpha1.ClusterCredential, reason string) {
	f.t.Helper()
	f.eventually(func() error {
		f.must(f.Get(f.ctx, client.ObjectKeyFromObject(c), c))
		if is := meta.FindStatusCondition(c.Status.Conditions, muster.ConditionIssued); is == nil || is.Reason != reason {
			return fmt.Errorf("the condition Issued is %+v, want the reason %s", is, reason)
		}
		return nil
	})
}

// reported waits for an event in the agent's namespace with all words.
func (f *fixture) reported(reason string, words ...string) {
	f.t.Helper()
	f.eventually(func() error {
		events := &eventsv1.EventList{}
		f.must(f.List(f.ctx, events, client.InNamespace(f.own)))
		var notes []string
		for _, e := range events.Items {
			has := e.Reason == reason
			for _, w := range words {
				has = has && strings.Contains(e.Note, w)
			}
			if has {
				return nil
			}
			notes = append(notes, e.Reason+": "+e.Note)
		}
		return fmt.Errorf("no event %s with %q among\n%s", reason, words, strings.Join(notes, "\n"))
	})
}

// whoIs asks the cluster whose a token is; "" is nobody's.
func (f *fixture) whoIs(token string) string {
	f.t.Helper()
	c, err := kubernetes.NewForConfig(env.Config("test"))
	f.must(err)
	review := &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}}
	review, err = c.AuthenticationV1().TokenReviews().Create(f.ctx, review, metav1.CreateOptions{})
	f.must(err)
	return review.Status.User.Username
}

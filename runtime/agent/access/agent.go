package access

import (
	"context"
	"sync"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/internal/retry"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/registration/loop"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/registration/mirror"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

// workers is how many credentials are looked after at a time.
const workers = 8

// agent looks after the credentials of one hub.
type agent struct {
	Options
	hub, local     client.WithWatch
	hubID, hubHash string

	credentials *mirror.Mirror[*v1alpha1.ClusterCredential]
	requests    *mirror.Mirror[*certificatesv1.CertificateSigningRequest]
	policies    *mirror.Mirror[*corev1.ConfigMap]
	works       *mirror.Mirror[*workv1.AppliedManifestWork]
	news        loop.Signal
	// gone ends the run: the hub has no user access any more.
	gone context.CancelFunc

	// written are the writes of this agent that the mirrors may not show yet.
	writtenCredentials *mirror.Overlay[*v1alpha1.ClusterCredential]
	writtenRequests    *mirror.Overlay[*certificatesv1.CertificateSigningRequest]

	author author
	rights rights
	signer signer

	mu      sync.Mutex
	failing map[types.NamespacedName]*failure
	problem retry.Once // of the policy
}

func newAgent(o Options, hub, local client.WithWatch, hubID string) *agent {
	a := &agent{
		Options: o, hub: hub, local: local, hubID: hubID, hubHash: work.HubHash(o.HubHost),
		news:               loop.NewSignal(),
		writtenCredentials: mirror.NewOverlay[*v1alpha1.ClusterCredential](),
		writtenRequests:    mirror.NewOverlay[*certificatesv1.CertificateSigningRequest](),
		failing:            map[types.NamespacedName]*failure{},
	}
	a.signer.backoff = retry.New(o.Clock, wait.Backoff{Duration: signerPause, Factor: 2, Steps: 10, Cap: signerMaxPause})
	a.credentials = mirror.New(mirror.Options[*v1alpha1.ClusterCredential]{
		Client: hub, List: &v1alpha1.ClusterCredentialList{}, Clock: o.Clock,
		Select:  []client.ListOption{client.InNamespace(o.ClusterName)},
		Report:  a.hubAnswers,
		Backoff: ptr.To(retry.Quick(time.Minute)),
	})
	a.requests = mirror.New(mirror.Options[*certificatesv1.CertificateSigningRequest]{
		Client: local, List: &certificatesv1.CertificateSigningRequestList{}, Clock: o.Clock,
		Select: []client.ListOption{client.MatchingLabels(a.labels())},
		Report: a.reporter("certificate requests"),
	})
	a.policies = mirror.New(mirror.Options[*corev1.ConfigMap]{
		Client: local, List: &corev1.ConfigMapList{}, Clock: o.Clock,
		Select: []client.ListOption{client.InNamespace(o.Namespace), client.MatchingFields{"metadata.name": muster.PolicyConfigMap}},
		Report: a.reporter("the access policy"),
	})
	a.works = mirror.New(mirror.Options[*workv1.AppliedManifestWork]{
		Client: local, List: &workv1.AppliedManifestWorkList{}, Clock: o.Clock,
		Select: []client.ListOption{client.HasLabels{muster.LogicalCloudLabel}},
		Report: a.reporter("the works of logical clouds"),
	})
	return a
}

// labels are those of the certificate requests that this agent makes.
func (a *agent) labels() map[string]string {
	return map[string]string{muster.AccessHubLabel: a.hubID, muster.AccessClusterLabel: a.ClusterName}
}

// hubAnswers takes the reports of the mirror of the credentials.
func (a *agent) hubAnswers(err error) {
	switch {
	case apierrors.IsNotFound(err):
		a.gone()
	case err != nil:
		a.Log.Debug("cannot watch the cluster credentials on the hub, trying again", "err", err)
	}
}

func (a *agent) reporter(what string) func(error) {
	var problem retry.Once
	return func(err error) {
		switch {
		case err == nil:
			problem.Clear()
		case apierrors.IsForbidden(err) && problem.Changed(err.Error()):
			a.Log.Warn("the agent may not read "+what+", so no user gets access: give it the ClusterRole for user access, "+
				"as muster_klusterlet does with user_access", "err", err)
		default:
			a.Log.Debug("cannot watch "+what+" in the managed cluster, trying again", "err", err)
		}
	}
}

// run looks after the credentials until ctx ends, or the hub has none any more.
func (a *agent) run(ctx context.Context) {
	ctx, a.gone = context.WithCancel(ctx)
	defer a.gone()
	var running sync.WaitGroup
	defer running.Wait()
	running.Go(func() { a.credentials.Run(ctx) })
	running.Go(func() { a.requests.Run(ctx) })
	running.Go(func() { a.policies.Run(ctx) })
	running.Go(func() { a.works.Run(ctx) })
	// Without a full view of both sides, what is not there yet would count as
	// deleted, and a policy that was not read as none.
	for _, filled := range []<-chan struct{}{a.policies.Filled(), a.requests.Filled(), a.works.Filled(), a.credentials.Filled()} {
		select {
		case <-filled:
		case <-ctx.Done():
			return
		}
	}
	a.credentials.Notify(a.news)
	a.requests.Notify(a.news)
	a.policies.Notify(a.news)
	a.works.Notify(a.news)
	loop.Run(ctx, a.Clock, a.news, 0, a.pass)
}

package action

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/action/schema"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/hub"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/registration"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
)

// defaultAnswer is how long an agent may take to do what it is asked for.
const defaultAnswer = 5 * time.Minute

// rotateCertificate is muster_rotate_certificate.
func rotateCertificate() declaration {
	return declaration{
		name: "rotate_certificate",
		description: "Has the agent of a cluster renew its client certificate for the hub now, with a new key, and " +
			"waits for it. Agents renew by themselves when a fifth of the certificate's life is left; this is for " +
			"keys that may have leaked, and for hubs whose signer has changed.\n\n" +
			"The certificate from before **stays valid until it expires**, as API servers take no certificates back. " +
			"To shut out anyone who has its key, let the cluster join again with another agent (`muster rejoin`): a " +
			"muster hub then refuses the agent from before.\n\n" +
			"The action puts the annotation `" + cluster.RenewCertificateAnnotation + "` on the ManagedCluster, " +
			"which the agent removes when it is done. " +
			"Agents of Open Cluster Management do not know it: the action says so after a while, takes the " +
			"annotation back and fails.",
		attributes: map[string]schema.Attribute{
			clusterName: required("Name of the managed cluster. It has to be accepted and to have joined.",
				attribute.ValidClusterName()),
		},
		takes: "the renewal", timeout: defaultAnswer,
		doing: "rotate the certificate of managed cluster", to: []string{clusterName},
		do: func(ctx context.Context, r *run) error { return (&rotation{run: r}).rotate(ctx) },
	}
}

// rotate has the agent of a cluster renew its client certificate now, and waits for
// it. The certificate from before stays valid until it expires: API servers don't
// take certificates back.
func (r *rotation) rotate(ctx context.Context) error {
	object, err := find(ctx, r.client, r.cluster)
	if err != nil {
		return err
	}
	if err := r.possible(object); err != nil {
		return err
	}
	r.before = rotated(object)
	asked, err := r.ask(ctx, object, cluster.RenewCertificateAnnotation)
	if err != nil {
		return err
	}
	if asked {
		r.say("The agent of %s is asked to renew its certificate.", r.cluster)
	} else {
		r.say("Somebody has asked the agent of %s to renew its certificate already.", r.cluster)
	}
	if !meta.IsStatusConditionTrue(object.Status.Conditions, cluster.ConditionAvailable) {
		r.say("The hub does not hear from %s at present. Its agent renews the certificate when it is back.", r.cluster)
	}
	err = r.answer(ctx, object, cluster.RenewCertificateAnnotation, r.look,
		func(exists bool) (bool, error) { return r.judge(object, exists) },
		func() error { return r.tooLate(ctx, object) },
		fmt.Sprintf("The request to the agent of %q was taken back. It may have renewed its certificate in the "+
			"meantime.", r.cluster))
	if err == nil {
		r.say("%s. The certificate from before stays valid until it expires.", rotated(object).Message)
	}
	return err
}

// rotation is the renewal of one certificate.
type rotation struct {
	*run
	before metav1.Condition

	mu sync.Mutex
	// requests are those that were told of.
	requests []string
	asking   bool
}

// possible says why the agent could not renew its certificate.
func (r *rotation) possible(object *clusterv1.ManagedCluster) error {
	summary := fmt.Sprintf("The agent of managed cluster %q can't renew its certificate", r.cluster)
	switch {
	case object.DeletionTimestamp != nil:
		return refuse(summary, "The cluster is being detached, and its agent has lost its rights.")
	case !object.Spec.AcceptsClient():
		return refuse(summary, "The cluster is not accepted, and the hub signs certificates for accepted ones only. "+
			"Accept it first, or have it join again with another agent: muster rejoin %s", r.cluster)
	case !meta.IsStatusConditionTrue(object.Status.Conditions, cluster.ConditionJoined):
		return refuse(summary, "The cluster has not joined, so that its agent has no certificate. Conditions:\n%s",
			hub.DescribeConditions(object.Status.Conditions, r.Clock.Now()))
	}
	return nil
}

// judge reports whether the agent has renewed its certificate: it says so in a
// condition, and has removed the request.
func (r *rotation) judge(object *clusterv1.ManagedCluster, exists bool) (bool, error) {
	if !exists {
		return false, refuse(fmt.Sprintf("Managed cluster %q is gone", r.cluster), "It was deleted while its agent "+
			"was to renew its certificate.")
	}
	if err := r.possible(object); err != nil {
		return false, err
	}
	r.mu.Lock()
	r.asking = object.Annotations[cluster.RenewCertificateAnnotation] != ""
	r.mu.Unlock()
	now := rotated(object)
	if now.Message == r.before.Message && now.Status == r.before.Status {
		return false, nil
	}
	if now.Status != metav1.ConditionTrue {
		r.say("The agent of %s tries again: %s", r.cluster, now.Message)
		return false, nil
	}
	return object.Annotations[cluster.RenewCertificateAnnotation] == "", nil
}

// look reports the agent's certificate request, and when nothing is heard.
func (r *rotation) look(ctx context.Context) {
	r.mu.Lock()
	asking := r.asking
	r.mu.Unlock()
	if !asking {
		return
	}
	pending, err := registration.PendingRequests(ctx, r.client, r.cluster)
	for _, name := range pending {
		if err == nil && !slices.Contains(r.requests, name) {
			r.requests = append(r.requests, name)
			r.say("The certificate request %s of %s waits for approval: kubectl certificate approve %s", name,
				r.cluster, name)
		}
	}
	if len(r.requests) == 0 {
		r.reportSilence(ctx)
	}
}

func (r *rotation) tooLate(ctx context.Context, object *clusterv1.ManagedCluster) error {
	looking, cancel := context.WithTimeout(ctx, hub.ReadBudget)
	defer cancel()
	return refuse(fmt.Sprintf("The agent of managed cluster %q has not renewed its certificate within %s", r.cluster,
		r.timeout),
		"The request was taken back. Either the agent does not run or can't reach the hub, or it does not know the "+
			"request: agents of Open Cluster Management renew by the time alone. "+
			"There, delete the Secret %s in the namespace %s of the managed cluster, which makes the agent ask for "+
			"another certificate, and approve it. Conditions:\n%s\n\n%s",
		cluster.HubKubeconfigSecret, cluster.AgentNamespace, hub.DescribeConditions(object.Status.Conditions,
			r.Clock.Now()),
		lines(registration.DescribeWaitingRequests(looking, r.client, r.cluster, r.Clock.Now())...))
}

// rotated is what the agent says of its certificate.
func rotated(object *clusterv1.ManagedCluster) metav1.Condition {
	if c := meta.FindStatusCondition(object.Status.Conditions, cluster.ConditionCertificateRotated); c != nil {
		return *c
	}
	return metav1.Condition{}
}

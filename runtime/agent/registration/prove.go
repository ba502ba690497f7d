package registration

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/internal/hubinfo"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/registration/identity"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
)

// proofAnnotation is on the cluster's lease while an agent finds out whether two
// endpoints are the same hub.
const proofAnnotation = cluster.AgentAnnotationPrefix + "hub-endpoint-proof"

// refusal is why an agent does not go over to an endpoint.
type refusal struct {
	reason, message string
	cause           error
}

func (r *refusal) Error() string {
	if r.cause == nil {
		return r.message
	}
	return r.message + ": " + r.cause.Error()
}

func (r *refusal) Unwrap() error { return r.cause }

// refuse finds out why a request to an endpoint has failed.
func refuse(server string, err error) *refusal {
	var (
		verification *tls.CertificateVerificationError
		authority    x509.UnknownAuthorityError
		hostname     x509.HostnameError
	)
	switch {
	case errors.As(err, &verification), errors.As(err, &authority), errors.As(err, &hostname):
		return &refusal{muster.ReasonEndpointUntrusted, server + " shows a certificate that the hub's published authorities do not verify for that name: " +
			"publish the authority with --external-ca-files, or give that server another certificate", err}
	case apierrors.IsUnauthorized(err), apierrors.IsForbidden(err):
		return &refusal{muster.ReasonEndpointRefusesCertificate, server + " does not take the agent's certificate: " +
			"it is another hub, or a proxy or load balancer that does not pass TLS through to the hub", err}
	case apierrors.IsNotFound(err):
		return &refusal{muster.ReasonAnotherHub, server + " is not the agent's hub: it does not have what the hub has", err}
	}
	return &refusal{muster.ReasonEndpointUnreachable, server + " does not answer as a hub", err}
}

// isSameHub finds out whether an endpoint leads to the hub of an identity: it says
// to be that hub, takes the agent's certificate, and has the ManagedCluster.
func (r *Registration) isSameHub(ctx context.Context, id identity.Identity, e identity.Endpoint) error {
	return r.at(ctx, id, e, func(ctx context.Context, hub client.Client) error {
		_, err := r.knows(ctx, hub, id.Place.HubUID, e.Server)
		return err
	})
}

// at calls do with the hub as it is reached at an endpoint by an identity.
func (r *Registration) at(ctx context.Context, id identity.Identity, e identity.Endpoint, do func(context.Context, client.Client) error) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	id.Hub = e
	credentials, err := identity.NewCredentials(id)
	if err != nil {
		return err
	}
	defer credentials.Close()
	hub, err := r.newClient(credentials.Config(r.UserAgent))
	if err != nil {
		return err
	}
	return do(ctx, hub)
}

// knows returns the agent's ManagedCluster on a hub that is the one with the UID.
func (r *Registration) knows(ctx context.Context, hub client.Client, uid, server string) (*clusterv1.ManagedCluster, error) {
	published := &corev1.ConfigMap{}
	if err := hub.Get(ctx, client.ObjectKey{Namespace: metav1.NamespacePublic, Name: hubinfo.EndpointsName}, published); err != nil {
		return nil, refuse(server, err)
	}
	there, err := hubinfo.ParseEndpoints(published.Data)
	if err != nil {
		return nil, &refusal{muster.ReasonAnotherHub, server + " does not say as a hub does where it is", err}
	}
	if there.HubUID != uid {
		return nil, &refusal{reason: muster.ReasonAnotherHub, message: fmt.Sprintf("%s is another hub: its UID is %s, and that of the agent's hub is %s", server, there.HubUID, uid)}
	}
	mc := &clusterv1.ManagedCluster{}
	if err := hub.Get(ctx, client.ObjectKey{Name: r.ClusterName}, mc); err != nil {
		return nil, refuse(server, err)
	}
	return mc, nil
}

// prove finds out whether an endpoint leads to the hub of the session. What it
// publishes proves nothing, as everybody may read that. So the agent writes there,
// as itself, and looks on the connection that it trusts whether it arrives: a
// proxy in between can't write as the agent.
func (s *session) prove(ctx context.Context, e identity.Endpoint, uid string) error {
	return s.at(ctx, s.identity(), e, func(ctx context.Context, hub client.Client) error {
		mc, err := s.knows(ctx, hub, uid, e.Server)
		if err != nil {
			return err
		}
		if mine, ok := s.clusters.Get(s.ClusterName); !ok || mine.UID != mc.UID {
			return &refusal{reason: muster.ReasonAnotherHub, message: e.Server + " is another hub: its ManagedCluster is not the agent's"}
		}
		nonce := rand.Text()
		if err := s.markLease(ctx, hub, nonce); err != nil {
			return refuse(e.Server, err)
		}
		lease := &coordinationv1.Lease{}
		err = s.hub.Get(ctx, s.leaseKey(), lease)
		if err != nil {
			return fmt.Errorf("look for a mark that was left at %s: %w", e.Server, err)
		}
		if lease.Annotations[proofAnnotation] != nonce {
			return &refusal{reason: muster.ReasonAnotherHub, message: e.Server + " is another hub: what the agent writes there does not arrive at its own"}
		}
		if err := s.markLease(ctx, s.hub, ""); err != nil {
			s.Log.Debug("cannot remove a mark from the lease", "err", err)
		}
		return nil
	})
}

func (s *session) leaseKey() client.ObjectKey {
	return client.ObjectKey{Namespace: s.ClusterName, Name: cluster.LeaseName}
}

// markLease puts the mark on the cluster's lease; an empty one removes it.
// Heartbeats write the lease too.
func (s *session) markLease(ctx context.Context, hub client.Client, mark string) error {
	return retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		lease := &coordinationv1.Lease{}
		if err := hub.Get(ctx, s.leaseKey(), lease); err != nil {
			return err
		}
		if delete(lease.Annotations, proofAnnotation); mark != "" {
			metav1.SetMetaDataAnnotation(&lease.ObjectMeta, proofAnnotation, mark)
		}
		return hub.Update(ctx, lease)
	})
}

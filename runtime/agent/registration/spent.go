package registration

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"log/slog"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/registration/identity"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/registration/loop"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
)

// digest identifies a bootstrap kubeconfig without repeating its content.
func digest(content []byte) string {
	sum := sha256.Sum256(bytes.TrimSpace(content))
	return hex.EncodeToString(sum[:])
}

// usedBootstrap is the bootstrap kubeconfig, as a digest, that must not be used
// again; empty when there is none.
func (r *Registration) usedBootstrap(stored identity.Identity) string {
	if !r.DeleteBootstrapSecret {
		return ""
	}
	return stored.UsedBootstrap
}

// deleteBootstrap deletes the bootstrap Secret once the hub serves the agent under
// its own identity. The digest of what is deleted is stored before: a mounted file
// outlives its Secret by a minute or so, and a file of a process forever.
func (s *session) deleteBootstrap(ctx context.Context) {
	if !s.DeleteBootstrapSecret || s.source.secret == nil {
		return
	}
	loop.Run(ctx, s.Clock, s.clusters.Subscribe(), loop.Never, func(ctx context.Context) time.Duration {
		mc, ok := s.clusters.Get(s.ClusterName)
		if !ok || !meta.IsStatusConditionTrue(mc.Status.Conditions, cluster.ConditionHubAccepted) {
			return loop.Never
		}
		if err := s.tryDeleteBootstrap(ctx); err != nil && ctx.Err() == nil {
			s.Log.Warn("cannot delete the bootstrap Secret, trying again: allow the agent to delete Secrets in its namespace",
				"secret", s.Namespace+"/"+cluster.BootstrapSecret, "err", err)
			return time.Minute
		}
		return loop.Never
	})
}

func (s *session) tryDeleteBootstrap(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	b, err := s.source.current()
	if err != nil || s.identity().Differs(b.Endpoint) != "" {
		return nil // there is none, or one that leads to another hub, where the agent goes next
	}
	secret := &corev1.Secret{}
	err = s.Local.Get(ctx, client.ObjectKey{Namespace: s.Namespace, Name: cluster.BootstrapSecret}, secret)
	if client.IgnoreNotFound(err) != nil {
		return err
	}
	gone := err != nil
	if !gone && digest(secret.Data[cluster.KubeconfigKey]) != digest(b.Content) {
		return nil // it has just changed, which is news to come
	}
	if err := s.store.MarkUsed(ctx, digest(b.Content)); err != nil {
		return err
	}
	s.source.refuse(digest(b.Content))
	if gone {
		return nil
	}
	if err := s.Local.Delete(ctx, secret, client.Preconditions{UID: &secret.UID, ResourceVersion: &secret.ResourceVersion}); client.IgnoreNotFound(err) != nil {
		return err
	}
	s.Log.Log(ctx, slog.LevelInfo, "deleted the bootstrap Secret, as the cluster has registered", "secret", s.Namespace+"/"+cluster.BootstrapSecret)
	return nil
}

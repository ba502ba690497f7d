package registration

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/registration/identity"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/registration/loop"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/registration/mirror"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
)

var (
	errNoBootstrap   = errors.New("there is no bootstrap kubeconfig")
	errSourceChanged = errors.New("the bootstrap kubeconfig has changed")
)

// source is where the bootstrap kubeconfig comes from. That is the file, which
// in a pod is mounted from a Secret. As a mounted file follows its Secret only
// after a minute or so, the Secret itself is preferred once it has changed.
type source struct {
	file      string
	namespace string
	// secret mirrors the Secret; nil when only the file counts.
	secret *mirror.Mirror[*corev1.Secret]
	// changed has news when the Secret may have changed.
	changed loop.Signal

	mu sync.Mutex
	// first is what the Secret held when it was first seen.
	first []byte
	seen  bool
	// used is the digest of a kubeconfig that must not be used again.
	used string
}

func newSource(file, namespace string, secret *mirror.Mirror[*corev1.Secret]) *source {
	return &source{file: file, namespace: namespace, secret: secret, changed: secret.Subscribe()}
}

// refuse has a kubeconfig, given by its digest, count as none.
func (s *source) refuse(used string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.used = used
}

// current reads the bootstrap kubeconfig; errNoBootstrap when there is none, or it
// must not be used again.
func (s *source) current() (*identity.Bootstrap, error) {
	b, err := s.read()
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.used != "" && digest(b.Content) == s.used {
		return nil, fmt.Errorf("%w that was not used before: put another one into the Secret %s/%s, under the key %q",
			errNoBootstrap, s.namespace, cluster.BootstrapSecret, cluster.KubeconfigKey)
	}
	return b, nil
}

func (s *source) read() (*identity.Bootstrap, error) {
	inSecret := s.inSecret()
	if inSecret != nil && s.isNews(inSecret) {
		return s.fromSecret(inSecret)
	}
	content, err := s.inFile()
	switch {
	case err == nil && len(content) > 0:
		b, err := identity.ParseBootstrap(content, filepath.Dir(s.file))
		if err != nil {
			return nil, fmt.Errorf("read the bootstrap kubeconfig %s: %w", s.file, err)
		}
		return b, nil
	case inSecret != nil:
		return s.fromSecret(inSecret)
	case err != nil && !errors.Is(err, os.ErrNotExist):
		return nil, fmt.Errorf("read the bootstrap kubeconfig: %w", err)
	}
	return nil, fmt.Errorf("%w: %s: make the Secret %s/%s with the key %q in the managed cluster, or give a file with --bootstrap-kubeconfig",
		errNoBootstrap, s.lacking(), s.namespace, cluster.BootstrapSecret, cluster.KubeconfigKey)
}

func (s *source) lacking() string {
	if s.file == "" {
		return "no file is given, and there is no Secret"
	}
	return fmt.Sprintf("the file %s is missing or empty, and there is no Secret", s.file)
}

func (s *source) inFile() ([]byte, error) {
	if s.file == "" {
		return nil, os.ErrNotExist
	}
	content, err := os.ReadFile(s.file)
	return bytes.TrimSpace(content), err
}

func (s *source) fromSecret(content []byte) (*identity.Bootstrap, error) {
	b, err := identity.ParseBootstrap(content, "")
	if err != nil {
		return nil, fmt.Errorf("read the bootstrap kubeconfig in the Secret %s/%s: %w", s.namespace, cluster.BootstrapSecret, err)
	}
	return b, nil
}

// inSecret is what the Secret holds now; nil when there is no such Secret.
func (s *source) inSecret() []byte {
	if s.secret == nil {
		return nil
	}
	secret, ok := s.secret.GetNamespaced(s.namespace, cluster.BootstrapSecret)
	if !ok || len(secret.Data[cluster.KubeconfigKey]) == 0 {
		return nil
	}
	return secret.Data[cluster.KubeconfigKey]
}

// isNews reports whether the Secret has changed since the agent started.
func (s *source) isNews(content []byte) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.seen {
		s.first, s.seen = content, true
	}
	return !bytes.Equal(s.first, content)
}

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

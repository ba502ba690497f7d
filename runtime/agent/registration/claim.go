package registration

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/internal/hubinfo"
	"github.com/muster-fleet/terraform-provider-muster/internal/retry"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/registration/identity"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/registration/loop"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/registration/mirror"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	musterv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
)

// answerTimeout is how long one attempt waits for the hub's answer to a
// registration. A hub that works answers within seconds.
const answerTimeout = 20 * time.Second

var errUnanswered = errors.New("the hub has not answered the registration yet")

// refusedError is what a hub says that answers, and does not register the cluster
// by its client ID.
type refusedError struct{ text string }

func (e refusedError) Error() string { return e.text }

func refused(format string, args ...any) error { return refusedError{fmt.Sprintf(format, args...)} }

// learnName finds out what the cluster is called on the hub, which nobody has said.
// It tries until it knows, and returns an error only when ctx has ended.
func (r *Registration) learnName(ctx context.Context) error {
	backoff := retry.New(r.Clock, retry.Start(30*time.Second))
	for {
		name, err := r.tryLearnName(ctx)
		if err == nil {
			r.ClusterName, r.Log = name, r.Log.With("cluster", name)
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		r.say(slog.LevelWarn, err.Error())
		backoff.Wait(ctx, r.changed)
	}
}

func (r *Registration) tryLearnName(ctx context.Context) (string, error) {
	bounded, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	stored, err := r.store.Load(bounded)
	if err != nil {
		return "", err
	}
	r.source.refuse(r.usedBootstrap(stored))
	b, err := r.source.current()
	if err != nil {
		return "", fmt.Errorf("the agent cannot register: %w%s", err, r.howToRejoin())
	}
	hub, err := r.newClient(b.Config)
	if err != nil {
		return "", fmt.Errorf("prepare the connection to the hub %s: %w", b.Endpoint.Server, err)
	}
	name, err := r.nameAt(bounded, hub, b)
	if err != nil {
		return "", explain(err, b.Endpoint.Server)
	}
	// Stored at once, so that an agent that is killed goes on under it.
	stored.Cluster = name
	return name, r.store.Save(bounded, identity.Identity{Names: stored.Names})
}

// nameAt asks a hub for the cluster's name. A hub that registers by no client ID
// leaves it to the agent, as long as nobody has chosen one.
func (r *Registration) nameAt(ctx context.Context, hub client.Client, b *identity.Bootstrap) (string, error) {
	answers, err := registersByClientID(ctx, hub)
	switch {
	case err != nil:
		return "", fmt.Errorf("ask the hub what it supports: %w", err)
	case answers:
		return r.claim(ctx, hub, b)
	case r.ClientID != "" || len(r.ClusterLabels) > 0:
		return "", refused("the hub %s does not register clusters by a client ID, as it is not a hub of muster, an earlier one, "+
			"or started with --feature-gates ClusterRegistration=false: name the cluster with --cluster-name, "+
			"and leave out --client-id and --registration-label", b.Endpoint.Server)
	}
	return string(uuid.NewUUID()), nil
}

// registersByClientID reports whether a hub announces that it does.
func registersByClientID(ctx context.Context, hub client.Client) (bool, error) {
	info := &corev1.ConfigMap{}
	err := hub.Get(ctx, client.ObjectKey{Namespace: metav1.NamespacePublic, Name: hubinfo.Name}, info)
	if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) {
		return false, nil
	}
	return err == nil && hubinfo.Has(info.Data, hubinfo.ClusterRegistration), err
}

// claim registers the cluster by its client ID, and returns the name that the hub
// answers with.
func (r *Registration) claim(ctx context.Context, hub client.Client, b *identity.Bootstrap) (string, error) {
	system := &corev1.Namespace{}
	if err := r.Local.Get(ctx, client.ObjectKey{Name: metav1.NamespaceSystem}, system); err != nil {
		return "", fmt.Errorf("read the UID of the managed cluster's namespace %s: %w", metav1.NamespaceSystem, err)
	}
	spec := musterv1alpha1.ClusterRegistrationSpec{ClientID: r.ClientID, ClusterUID: string(system.UID), Labels: r.ClusterLabels}
	if spec.ClientID == "" {
		spec.ClientID = spec.ClusterUID
	}
	registration := &musterv1alpha1.ClusterRegistration{ObjectMeta: metav1.ObjectMeta{Name: registrationName(b, spec)}, Spec: spec}
	if what := fmt.Sprintf("registering with the hub %s by the client ID %s", b.Endpoint.Server, spec.ClientID); r.registering.Changed(what) {
		r.say(slog.LevelInfo, what)
	}
	answer, err := r.awaitAnswer(ctx, hub, registration)
	switch {
	case err != nil:
		return "", fmt.Errorf("register the cluster by the client ID %s: %w", spec.ClientID, err)
	case answer.Status != metav1.ConditionTrue || registration.Status.ClusterName == "":
		return "", refused("the hub %s does not register the cluster by the client ID %s (%s): %s",
			b.Endpoint.Server, spec.ClientID, answer.Reason, answer.Message)
	}
	r.Log.Info("the hub has registered the cluster", "clientID", spec.ClientID, "cluster", registration.Status.ClusterName, "answer", answer.Message)
	return registration.Status.ClusterName, nil
}

// awaitAnswer creates a registration unless it is there, and waits for the hub's
// answer, which it returns. registration is then as on the hub.
func (r *Registration) awaitAnswer(ctx context.Context, hub client.Client, registration *musterv1alpha1.ClusterRegistration) (answer *metav1.Condition, err error) {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	asked := registration.DeepCopy()
	waited := retry.Until(ctx, r.Clock, retry.Quick(2*time.Second), func(ctx context.Context) error {
		err = hub.Get(ctx, client.ObjectKeyFromObject(asked), registration)
		if apierrors.IsNotFound(err) {
			asked.DeepCopyInto(registration)
			err = client.IgnoreAlreadyExists(hub.Create(ctx, registration))
		}
		if err != nil {
			return nil //nolint:nilerr // waiting is for the answer; what fails is tried again later
		}
		if answer = meta.FindStatusCondition(registration.Status.Conditions, muster.ConditionRegistered); answer == nil {
			return errUnanswered
		}
		return nil
	})
	if err == nil && waited != nil {
		err = errUnanswered
	}
	return answer, err
}

// registrationName is the name of a registration: always the same for the same
// credentials, so that an agent which is killed finds it again, and known to nobody
// without them.
func registrationName(b *identity.Bootstrap, spec musterv1alpha1.ClusterRegistrationSpec) string {
	mac := hmac.New(sha256.New, slices.Concat([]byte(b.Config.BearerToken), b.Config.KeyData, b.Content))
	write := func(text string) { _, _ = fmt.Fprintf(mac, "%d:%s", len(text), text) } // a hash takes everything
	write(spec.ClientID)
	write(spec.ClusterUID)
	for _, key := range slices.Sorted(maps.Keys(spec.Labels)) {
		write(key)
		write(spec.Labels[key])
	}
	return "agent-" + hex.EncodeToString(mac.Sum(nil))[:40]
}

// confirmName asks the hub once more what the cluster is called when it has no
// ManagedCluster of the name, which the agent did not get as an option: the hub
// has to create it, so that it knows the client ID.
func (r *Registration) confirmName(ctx context.Context, hub client.Client, names identity.Names, b *identity.Bootstrap) (identity.Names, error) {
	if r.Named || r.several() {
		return names, nil
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	err := hub.Get(ctx, client.ObjectKey{Name: names.Cluster}, &clusterv1.ManagedCluster{})
	if !apierrors.IsNotFound(err) {
		return names, nil // the next step reports what keeps it from being read
	}
	return r.claimAgain(ctx, hub, names, b, nil)
}

// claimAgain asks the hub by the client ID what the cluster is called. otherwise is
// what it returns at a hub that registers by no client ID.
func (r *Registration) claimAgain(ctx context.Context, hub client.Client, names identity.Names, b *identity.Bootstrap, otherwise error) (identity.Names, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	answers, err := registersByClientID(ctx, hub)
	if err != nil || !answers {
		return names, errors.Join(err, otherwise)
	}
	name, err := r.claim(ctx, hub, b)
	if err != nil {
		return names, err
	}
	if name != names.Cluster {
		r.Log.Info("the hub calls the cluster by another name from now on", "before", names.Cluster, "cluster", name)
	}
	r.ClusterName, names.Cluster = name, name
	return names, nil
}

// howToRejoin is added to the complaint that there is no bootstrap kubeconfig.
func (r *Registration) howToRejoin() string {
	if !r.DeleteBootstrapSecret {
		return ""
	}
	name := r.ClusterName
	if name == "" {
		name = "CLUSTER"
	}
	return strings.Join([]string{
		"; --delete-bootstrap-secret deletes it once the cluster has registered: to register again, put another one there, ",
		"such as \"muster rejoin ", name, "\" prints for a cluster that has joined before",
	}, "")
}

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

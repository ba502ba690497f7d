package admission

import (
	"context"
	"fmt"
	"maps"
	"strings"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/keymutex"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
)

// tokenScope returns the scope of the user's bootstrap token. Other users have none. One that
// was revoked a moment ago is an error.
func (s *server) tokenScope(u user.Info) (scope cluster.TokenScope, ok bool, err error) {
	secret, err := s.tokenSecret(u)
	if secret == nil || err != nil {
		return cluster.TokenScope{}, false, err
	}
	scope, err = cluster.ParseTokenScope(secret.Annotations)
	if err != nil {
		return cluster.TokenScope{}, false, fmt.Errorf("the bootstrap token %q cannot be used: %w", strings.TrimPrefix(secret.Name, cluster.TokenSecretPrefix), err)
	}
	return scope, true, nil
}

// tokenSecret is the Secret of the user's bootstrap token, or nil when the user is none. A
// token without a Secret has no limits that could be kept, so it may do nothing.
func (s *server) tokenSecret(u user.Info) (*corev1.Secret, error) {
	id, ok := cluster.TokenOfUser(u.GetName())
	if !ok {
		return nil, nil
	}
	secret, err := s.secrets.Secrets(metav1.NamespaceSystem).Get(cluster.TokenSecretPrefix + id)
	if apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("the bootstrap token %q was revoked: its Secret %s/%s%[1]s is gone",
			id, metav1.NamespaceSystem, cluster.TokenSecretPrefix)
	}
	return secret, err
}

// tokenRequests records on certificate requests the token that they were made
// with, when the scope asks for it.
type tokenRequests struct {
	creations
	*server
}

// Admit sets the annotations, and removes those that the holder of a token
// sent.
func (p tokenRequests) Admit(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if _, token := cluster.TokenOfUser(a.GetUserInfo().GetName()); !token || !concerns(a, certificatesv1.GroupName, "certificatesigningrequests") {
		return nil
	}
	object, err := meta.Accessor(a.GetObject())
	if err != nil {
		return apierrors.NewBadRequest(fmt.Sprintf("the certificate request cannot be read: %v", err))
	}
	secret, err := p.tokenSecret(a.GetUserInfo())
	if err != nil {
		return admission.NewForbidden(a, err)
	}
	annotations := maps.Clone(object.GetAnnotations())
	delete(annotations, cluster.RequestTokenAnnotation)
	delete(annotations, cluster.RequestExpiryAnnotation)
	if secret != nil && secret.Annotations[cluster.TokenRevocationAnnotation] == cluster.RevokeRequests {
		if annotations == nil {
			annotations = map[string]string{}
		}
		annotations[cluster.RequestTokenAnnotation] = string(secret.UID)
		if expires := string(secret.Data["expiration"]); expires != "" {
			annotations[cluster.RequestExpiryAnnotation] = expires
		}
	}
	object.SetAnnotations(annotations)
	return nil
}

// tokenLabels labels the clusters that are created with bootstrap tokens.
type tokenLabels struct {
	creations
	*server
}

// Admit gives a ManagedCluster that is created with a token the token's labels,
// and one that names the token.
func (p tokenLabels) Admit(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if !concerns(a, cluster.GroupName, "managedclusters") {
		return nil
	}
	id, ok := cluster.TokenOfUser(a.GetUserInfo().GetName())
	if !ok {
		return nil
	}
	scope, _, err := p.tokenScope(a.GetUserInfo())
	if err != nil {
		return admission.NewForbidden(a, err)
	}
	object, err := meta.Accessor(a.GetObject())
	if err != nil {
		return apierrors.NewBadRequest(fmt.Sprintf("the ManagedCluster cannot be read: %v", err))
	}
	labels, err := stamped(object.GetLabels(), scope.Labels)
	if err != nil {
		return admission.NewForbidden(a, fmt.Errorf("the bootstrap token %q %w", id, err))
	}
	labels[cluster.TokenLabel] = id
	object.SetLabels(labels)
	return nil
}

// stamped adds a token's labels to the labels of a new cluster. A cluster that
// has another value for one of them is refused.
func stamped(labels, of map[string]string) (map[string]string, error) {
	for k, v := range of {
		if have, ok := labels[k]; ok && have != v {
			return nil, fmt.Errorf("creates clusters with the label %s=%s, and this one says %s=%s: leave the label out", k, v, k, have)
		}
	}
	out := map[string]string{}
	maps.Copy(out, labels)
	maps.Copy(out, of)
	return out, nil
}

// tokenUses limits how many clusters a bootstrap token may register.
type tokenUses struct {
	creations
	*server
	// writing serialises the writes of a token's uses, so that they do not
	// collide.
	writing keymutex.KeyMutex
}

// Validate counts the clusters that are registered with a token: the created
// ones, and those that a certificate is requested for.
func (p tokenUses) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	id, ok := cluster.TokenOfUser(a.GetUserInfo().GetName())
	if !ok {
		return nil
	}
	object, ok := a.GetObject().(metav1.Object)
	if !ok {
		return nil // a subresource, such as an eviction
	}
	var name string
	switch {
	case concerns(a, cluster.GroupName, "managedclusters"):
		name = object.GetName()
	case concerns(a, certificatesv1.GroupName, "certificatesigningrequests"):
		name = object.GetLabels()[cluster.NameLabel]
	}
	if name == "" {
		return nil
	}
	scope, ok, err := p.tokenScope(a.GetUserInfo())
	if err != nil {
		return admission.NewForbidden(a, err)
	}
	// Usually the cache knows the cluster from its first request.
	if changed, allowed := scope.Use(name); !ok || !changed && allowed {
		return nil
	}
	if err := p.use(ctx, id, name, a.IsDryRun()); err != nil {
		return admission.NewForbidden(a, err)
	}
	return nil
}

// use records in a token's Secret that a cluster is registered with it.
func (p tokenUses) use(ctx context.Context, id, name string, dryRun bool) error {
	p.writing.LockKey(id)
	defer func() { _ = p.writing.UnlockKey(id) }() // fails only for keys that nobody locked
	secrets := p.client.CoreV1().Secrets(metav1.NamespaceSystem)
	return retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		secret, err := secrets.Get(ctx, cluster.TokenSecretPrefix+id, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return fmt.Errorf("the bootstrap token %q was revoked", id)
		}
		if err != nil {
			return fmt.Errorf("look up what the bootstrap token %q was used for: %w", id, err)
		}
		scope, err := cluster.ParseTokenScope(secret.Annotations)
		if err != nil {
			return fmt.Errorf("the bootstrap token %q cannot be used: %w", id, err)
		}
		changed, allowed := scope.Use(name)
		if !allowed {
			return scope.UsedUp(id)
		}
		if !changed || dryRun {
			return nil
		}
		return p.note(ctx, secret, scope)
	})
}

func (p tokenUses) note(ctx context.Context, secret *corev1.Secret, scope cluster.TokenScope) error {
	secret = secret.DeepCopy()
	metav1.SetMetaDataAnnotation(&secret.ObjectMeta, cluster.TokenUsedByAnnotation, strings.Join(scope.UsedBy, ","))
	_, err := p.client.CoreV1().Secrets(metav1.NamespaceSystem).Update(ctx, secret, metav1.UpdateOptions{FieldManager: "muster-hub"})
	return err
}

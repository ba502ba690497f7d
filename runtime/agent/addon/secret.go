package addon

import (
	"context"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/runtime/addon/registration"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
)

// takeOver looks whether there is a Secret of the wanted name that the agent has not
// made. It returns it when it holds a good credential, after marking it. A Secret that
// must not be touched is an error, before anything is asked for.
func (a *agent) takeOver(ctx context.Context, w wanted, s *slot) (*corev1.Secret, error) {
	live, err := a.foreign(ctx, w)
	if live == nil || err != nil {
		return nil, err
	}
	have := w.inspect(live, a.Clock.Now(), s.chance)
	switch good := have.err == nil; {
	case good && a.isOurs(live, w.AddOn):
		return live, nil
	case !good || !a.Clock.Now().Before(have.renewAt):
		return nil, nil
	}
	if err := a.journal.enter(ctx, w.Namespace); err != nil {
		return nil, err
	}
	kept := map[string][]byte{}
	for key := range w.data(credential{}) {
		kept[key] = live.Data[key]
	}
	return a.update(ctx, w, live, kept)
}

// foreign is a Secret of the wanted name that the agent may take over, nil when there
// is none of the name, and an error when there is another.
func (a *agent) foreign(ctx context.Context, w wanted) (*corev1.Secret, error) {
	live := &corev1.Secret{}
	err := a.local.Get(ctx, client.ObjectKey{Namespace: w.Namespace, Name: w.Secret()}, live)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("read the Secret %s/%s: %w", w.Namespace, w.Secret(), err)
	case a.isOurs(live, w.AddOn):
		return live, nil // the watch is behind
	}
	if err := w.mayTakeOver(live); err != nil {
		return nil, problem{error: err, condition: w.FailedBy(err, false), pause: foreignPause}
	}
	return live, nil
}

// store writes the credential that a slot holds. secret is the agent's own, or nil.
func (a *agent) store(ctx context.Context, w wanted, s *slot, secret *corev1.Secret) (*corev1.Secret, error) {
	if !a.places.get(w.Namespace).exists(w.Namespace) {
		return nil, a.hold(w, s)
	}
	if err := a.journal.enter(ctx, w.Namespace); err != nil {
		return nil, err
	}
	data := w.data(*s.held)
	if secret == nil {
		var err error
		if secret, err = a.foreign(ctx, w); err != nil {
			return nil, err
		}
	}
	if secret != nil {
		return a.update(ctx, w, secret, data)
	}
	created := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: w.Secret()},
		Type:       corev1.SecretTypeOpaque, Data: data,
	}
	a.mark(w, created)
	if err := a.local.Create(ctx, created, client.FieldOwner(muster.AgentFieldManager)); err != nil {
		return nil, fmt.Errorf("create the Secret %s/%s: %w", w.Namespace, w.Secret(), err)
	}
	a.writtenSecrets.Wrote(created)
	a.Log.Info("stored a credential of an add-on", "addon", w.AddOn, "secret", w.Namespace+"/"+w.Secret())
	return created, nil
}

// hold keeps the credential for a namespace that is missing. What makes it is most
// often on its way, so it is reported to the hub after a while.
func (a *agent) hold(w wanted, s *slot) error {
	err := fmt.Errorf("the namespace %s does not exist in the managed cluster: "+
		"the credential is stored as soon as it does", w.Namespace)
	if left := s.heldSince.Add(holdPatience).Sub(a.Clock.Now()); left > 0 {
		return problem{error: err, pause: untilNews, after: left}
	}
	return problem{error: err, condition: w.FailedBy(err, false), pause: untilNews}
}

// update replaces the content of a Secret as it was read.
func (a *agent) update(
	ctx context.Context, w wanted, before *corev1.Secret, data map[string][]byte,
) (*corev1.Secret, error) {
	after := before.DeepCopy()
	after.Data = data
	a.mark(w, after)
	if err := a.local.Update(ctx, after, client.FieldOwner(muster.AgentFieldManager)); err != nil {
		return nil, fmt.Errorf("write the Secret %s/%s: %w", w.Namespace, w.Secret(), err)
	}
	a.writtenSecrets.Wrote(after)
	a.Log.Info("stored a credential of an add-on", "addon", w.AddOn, "secret", w.Namespace+"/"+w.Secret())
	return after, nil
}

// mark says on a Secret whose it is, and what the credential was asked for with.
func (a *agent) mark(w wanted, secret *corev1.Secret) {
	secret.Labels, secret.Annotations = maps.Clone(secret.Labels), maps.Clone(secret.Annotations)
	metav1.SetMetaDataLabel(&secret.ObjectMeta, muster.AddOnAgentLabel, a.Namespace)
	metav1.SetMetaDataAnnotation(&secret.ObjectMeta, muster.AddOnAnnotation, w.AddOn)
	metav1.SetMetaDataAnnotation(&secret.ObjectMeta, muster.AddOnRegistrationAnnotation, w.Identity())
}

// removeStale deletes the Secrets that the agent has made for an add-on and that none of
// its registrations wants.
func (a *agent) removeStale(ctx context.Context, addOn string, wanted []registration.Registration) error {
	for _, secret := range a.places.secrets() {
		isWanted := slices.ContainsFunc(wanted, func(r registration.Registration) bool {
			return r.Namespace == secret.Namespace && r.Secret() == secret.Name
		})
		if isWanted || secret.Annotations[muster.AddOnAnnotation] != addOn {
			continue
		}
		a.writtenSecrets.Forget(client.ObjectKeyFromObject(secret))
		if err := a.remove(ctx, secret); err != nil {
			return fmt.Errorf("delete the Secret %s/%s of an add-on: %w", secret.Namespace, secret.Name, err)
		}
	}
	return nil
}

func (a *agent) remove(ctx context.Context, secret *corev1.Secret) error {
	seen := client.Preconditions{UID: ptr.To(secret.UID), ResourceVersion: ptr.To(secret.ResourceVersion)}
	err := a.local.Delete(ctx, secret.DeepCopy(), seen)
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case apierrors.IsConflict(err):
		return nil // another one by now, which the watch is about to show
	case err != nil:
		return err
	}
	a.Log.Info("removed a credential of an add-on that is not wanted any more",
		"addon", secret.Annotations[muster.AddOnAnnotation], "secret", secret.Namespace+"/"+secret.Name)
	return nil
}

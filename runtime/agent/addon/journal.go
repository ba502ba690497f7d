package addon

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
)

// journal says in which namespaces the agent may have made Secrets. It is written
// before the first Secret of a namespace, so that an agent that starts finds those of
// add-ons that are gone by then, without the right to list all Secrets of the cluster.
type journal struct {
	local     client.Client
	namespace string

	// storing is held for reading from when a namespace is entered until its Secret is
	// stored.
	storing sync.RWMutex

	mu    sync.Mutex
	known sets.Set[string]
}

// load reads what an earlier agent has written.
func (j *journal) load(ctx context.Context) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	secret := &corev1.Secret{}
	err := j.local.Get(ctx, j.key(), secret)
	if err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	j.known = namesIn(secret)
	return nil
}

// namespaces are those that the journal has.
func (j *journal) namespaces() sets.Set[string] {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.known.Clone()
}

// enter writes a namespace down.
func (j *journal) enter(ctx context.Context, name string) error {
	return j.change(ctx, name, true)
}

// leave strikes a namespace out that is empty, and into which nothing is being stored.
func (j *journal) leave(ctx context.Context, name string, isEmpty func(context.Context, string) (bool, error)) error {
	j.storing.Lock()
	defer j.storing.Unlock()
	if empty, err := isEmpty(ctx, name); err != nil || !empty {
		return err
	}
	return j.change(ctx, name, false)
}

func (j *journal) change(ctx context.Context, name string, has bool) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.known.Has(name) == has {
		return nil
	}
	err := retry.OnError(retry.DefaultBackoff, again, func() error { return j.write(ctx, name, has) })
	if err != nil {
		return fmt.Errorf("write the Secret %s, which lists the namespaces with credentials of add-ons: %w",
			j.key(), err)
	}
	return nil
}

// again reports that another agent has written at the same time.
func again(err error) bool { return apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) }

// write is called with j.mu held.
func (j *journal) write(ctx context.Context, name string, has bool) error {
	secret := &corev1.Secret{}
	err := j.local.Get(ctx, j.key(), secret)
	if err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	names := namesIn(secret)
	if has {
		names.Insert(name)
	} else {
		names.Delete(name)
	}
	content := []byte(strings.Join(slices.Sorted(slices.Values(names.UnsortedList())), "\n"))
	if apierrors.IsNotFound(err) {
		err = j.local.Create(ctx, &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: j.namespace, Name: muster.AddOnNamespacesSecret},
			Data:       map[string][]byte{muster.AddOnNamespacesKey: content},
		}, client.FieldOwner(muster.AgentFieldManager))
	} else {
		secret.Data = map[string][]byte{muster.AddOnNamespacesKey: content}
		err = j.local.Update(ctx, secret, client.FieldOwner(muster.AgentFieldManager))
	}
	if err == nil {
		j.known = names
	}
	return err
}

func (j *journal) key() client.ObjectKey {
	return client.ObjectKey{Namespace: j.namespace, Name: muster.AddOnNamespacesSecret}
}

func namesIn(secret *corev1.Secret) sets.Set[string] {
	names := sets.New[string]()
	for name := range strings.FieldsSeq(string(secret.Data[muster.AddOnNamespacesKey])) {
		if len(validation.IsDNS1123Label(name)) == 0 {
			names.Insert(name)
		}
	}
	return names
}

package klusterlet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/types"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-fleet/terraform-provider-muster/internal/klusterlet"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/hub"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/kube"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/registration"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
)

// observation is what of an agent is in its cluster.
type observation struct {
	// any object of the agent's own namespace exists, or the namespace itself.
	any bool
	// drifts are the objects that are missing or not as they should be, and why.
	drifts []string
	// added are the objects to which something was added that nobody has configured.
	added []kube.Object
	// obsolete are objects that are there, and not for these options.
	obsolete []kube.Object
	// leaving is the namespace of the agent while it is being deleted.
	leaving *corev1.Namespace
	// bootstrap says that a Secret with a bootstrap kubeconfig exists, and foreign
	// that somebody else has put it there.
	bootstrap, foreign bool
	// deletes says that the agent deletes this Secret when it has registered.
	deletes bool
	// certified says that the agent holds a certificate that can be used, at where.
	certified bool
	where     registration.Endpoint
	// number is the bootstrap kubeconfig's, if it is on record, and version that of
	// one that the provider made.
	number, version types.Int64
	deployment      *appsv1.Deployment
	// server is where the bootstrap kubeconfig leads.
	server string
}

// complete says that every object exists and is as it should be.
func (s observation) complete() bool { return len(s.drifts) == 0 }

// ready says that the agent runs as it was written last and holds a certificate.
func (s observation) ready() bool {
	return s.complete() && s.certified && s.deployment != nil && agentRolledOut(s.deployment)
}

// visit looks at the agent and at which cluster it is in. All requests are sent side
// by side, so that it takes about as long as one.
func (a *agent) visit(ctx context.Context) (observation, place, error) {
	var found place
	var unknown error
	var asking sync.WaitGroup
	asking.Go(func() { found, unknown = a.place(ctx) })
	seen, err := a.look(ctx)
	asking.Wait()
	if unknown != nil {
		return observation{}, place{}, unknown
	}
	return seen, found, err
}

// look reads all of the agent's objects.
func (a *agent) look(ctx context.Context) (observation, error) {
	wanted := a.allObjects()
	live, err := a.read(ctx, append(wanted, a.identity()))
	if err != nil {
		return observation{}, err
	}
	seen := observation{number: types.Int64Null(), version: types.Int64Null()}
	for i, object := range wanted {
		seen.compare(a, object, live[i])
	}
	if secret, ok := live[len(wanted)].(*corev1.Secret); ok {
		seen.deletes = a.deletesBootstrap()
		seen.certified = certified(secret, a.name, time.Now())
		seen.where = endpointOf(secret.Data[cluster.KubeconfigKey])
	}
	return seen, nil
}

// identity is the Secret in which the agent keeps its certificate.
func (a *agent) identity() *corev1.Secret {
	secret := &corev1.Secret{}
	secret.Namespace, secret.Name = a.options.Namespace, cluster.HubKubeconfigSecret
	return secret
}

// read reads objects by their names; nil is one that does not exist.
func (a *agent) read(ctx context.Context, objects []kube.Object) ([]kube.Object, error) {
	live, errs := make([]kube.Object, len(objects)), make([]error, len(objects))
	var reading sync.WaitGroup
	for i, object := range objects {
		reading.Go(func() {
			found, name := kube.Fresh(object), object.GetName()
			switch err := a.client.Get(ctx, found, object.GetNamespace(), name); {
			case err == nil:
				live[i] = found
			case !kube.IsNotFound(err, name):
				errs[i] = fmt.Errorf("read %s: %w", nameOf(object), err)
			}
		})
	}
	reading.Wait()
	return live, errors.Join(errs...)
}

func kindOf(object kube.Object) string {
	if kind := object.GetObjectKind().GroupVersionKind().Kind; kind != "" {
		return kind
	}
	return "Secret"
}

// nameOf names an object in messages.
func nameOf(object kube.Object) string { return kindOf(object) + " " + object.GetName() }

// compare takes one object into the observation. live is nil when it does not exist.
func (s *observation) compare(a *agent, wanted, live kube.Object) {
	_, isSecret := wanted.(*corev1.Secret)
	if a.isObsolete(wanted) {
		if live != nil {
			s.obsolete = append(s.obsolete, wanted)
			s.drifts = append(s.drifts, nameOf(wanted)+" is there, and user_access is off")
		}
		return
	}
	if live == nil {
		if !isSecret || a.keepsBootstrap() && !a.deletesBootstrap() {
			s.drifts = append(s.drifts, nameOf(wanted)+" is missing")
		}
		return
	}
	own, in := a.options.Namespace, wanted.GetNamespace()
	if in == own || in == "" && wanted.GetName() == own {
		s.any = true
	}
	why := drift(wanted, live)
	switch object := live.(type) {
	case *corev1.Secret:
		s.bootstrap, s.foreign = usable(object), !ours(object)
		s.server = endpointOf(object.Data[cluster.KubeconfigKey]).Server
		s.number, s.version = numberIn(object, versionAnnotation), numberIn(object, madeVersionAnnotation)
		if !a.keepsBootstrap() || (s.bootstrap && s.foreign && !a.insists() && !a.ownsKubeconfig()) {
			why = ""
		}
	case *corev1.Namespace:
		if object.DeletionTimestamp != nil && object.Name == a.options.Namespace {
			s.leaving = object
		}
	case *appsv1.Deployment:
		s.deployment = object
	}
	if why != "" {
		s.drifts = append(s.drifts, nameOf(wanted)+": "+why)
	}
	added := additions(wanted, live)
	for _, what := range added {
		s.drifts = append(s.drifts, nameOf(wanted)+": "+what)
	}
	if len(added) > 0 {
		s.added = append(s.added, wanted)
	}
}

// isObsolete reports whether the agent must not have an object.
func (a *agent) isObsolete(object kube.Object) bool {
	return slices.ContainsFunc(klusterlet.Obsolete(a.options), func(o klusterlet.Object) bool {
		return o.GetName() == object.GetName() && kindOf(o) == kindOf(object)
	})
}

func numberIn(secret *corev1.Secret, annotation string) types.Int64 {
	if number, err := strconv.ParseInt(secret.Annotations[annotation], 10, 64); err == nil {
		return types.Int64Value(number)
	}
	return types.Int64Null()
}

// How an object in the cluster is compared with the one that the agent needs: by
// what the provider sets in it (klusterlet.Changed), and by what was added that nobody has
// configured (klusterlet.Additions).

// drift says in what an object is not as it should be; empty when it is. fields of
// the bootstrap Secret are only compared when the provider has written it.
func drift(wanted, live kube.Object) string {
	if live.GetDeletionTimestamp() != nil {
		return "is being deleted"
	}
	if secret, ok := live.(*corev1.Secret); ok {
		return secretDrift(wanted.(*corev1.Secret), secret)
	}
	switch at, err := klusterlet.Changed(wanted, live); {
	case err != nil:
		return "can't be compared"
	case at != "":
		return at + " was changed"
	}
	return ""
}

// secretDrift compares the Secret with the bootstrap kubeconfig, whose content
// nobody remembers: it has to be a kubeconfig, and still the one that was written.
func secretDrift(wanted, live *corev1.Secret) string {
	if !usable(live) {
		return "holds no bootstrap kubeconfig"
	}
	for key, value := range wanted.Annotations {
		if live.Annotations[key] != value {
			return "metadata.annotations." + key + " was changed"
		}
	}
	if !ours(live) {
		return "data." + cluster.KubeconfigKey + " was changed"
	}
	return ""
}

// additions are what was added to an object of the agent, each in words.
func additions(wanted, live kube.Object) (added []string) {
	paths, err := klusterlet.Additions(wanted, live)
	if err != nil {
		return []string{err.Error()}
	}
	for _, at := range paths {
		added = append(added, at+" was added")
	}
	return added
}

// usable reports whether the Secret has a kubeconfig that leads somewhere.
func usable(secret *corev1.Secret) bool {
	return endpointOf(secret.Data[cluster.KubeconfigKey]).Server != ""
}

// ours reports whether the provider is the one who wrote the bootstrap kubeconfig
// last, or the agent itself, which lets it follow a hub that has moved.
func ours(secret *corev1.Secret) bool {
	return wroteKubeconfig(secret, hub.FieldManager, metav1.ManagedFieldsOperationApply) ||
		wroteKubeconfig(secret, muster.AgentFieldManager, metav1.ManagedFieldsOperationUpdate)
}

// wroteKubeconfig reports whether the kubeconfig in a Secret is what this manager
// has written in this way.
func wroteKubeconfig(secret *corev1.Secret, manager string, operation metav1.ManagedFieldsOperationType) bool {
	for _, entry := range secret.ManagedFields {
		if entry.Manager != manager || entry.Operation != operation || entry.FieldsV1 == nil {
			continue
		}
		var owned struct {
			Data map[string]any `json:"f:data"`
		}
		if json.Unmarshal(entry.FieldsV1.GetRawBytes(), &owned) == nil {
			if _, found := owned.Data["f:"+cluster.KubeconfigKey]; found {
				return true
			}
		}
	}
	return false
}

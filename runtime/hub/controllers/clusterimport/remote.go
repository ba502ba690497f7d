package clusterimport

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/internal/klusterlet"
	"github.com/muster-fleet/terraform-provider-muster/internal/rolloutstatus"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/apply"
)

// fieldManager is whose the fields are that imports set in managed clusters.
const fieldManager = "muster-cluster-import"

// Annotations of the agent's pods. A change of them is a rolling update.
const (
	redeployAnnotation = "muster-fleet.io/redeploy"
	endpointAnnotation = "muster-fleet.io/hub-endpoint"
)

// observation is what of an agent is in a cluster.
type observation struct {
	deployment          *appsv1.Deployment
	identity, bootstrap *corev1.Secret
	// elsewhere is another namespace in which the cluster has an agent, in words.
	elsewhere string
}

// get reads an object; found is false when it does not exist.
func get(ctx context.Context, c client.Client, o client.Object, namespace, name string) (found bool, err error) {
	err = c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, o)
	if err != nil && !apierrors.IsNotFound(err) {
		return false, &stepError{fmt.Sprintf("read the %s %s", apply.Kind(o), name), err}
	}
	return err == nil, nil
}

// look reads what there is of an agent.
func (c *connection) look(ctx context.Context, namespace string) (observation, error) {
	s := observation{deployment: &appsv1.Deployment{}, identity: &corev1.Secret{}, bootstrap: &corev1.Secret{}}
	if found, err := get(ctx, c, s.deployment, namespace, klusterlet.Name); err != nil {
		return s, err
	} else if !found {
		s.deployment = nil
	}
	if found, err := get(ctx, c, s.identity, namespace, cluster.HubKubeconfigSecret); err != nil {
		return s, err
	} else if !found {
		s.identity = nil
	}
	if found, err := get(ctx, c, s.bootstrap, namespace, cluster.BootstrapSecret); err != nil {
		return s, err
	} else if !found {
		s.bootstrap = nil
	}
	binding := &rbacv1.ClusterRoleBinding{}
	if _, err := get(ctx, c, binding, "", klusterlet.RegistrationRole); err != nil {
		return s, err
	}
	for _, subject := range binding.Subjects {
		if subject.Namespace != "" && subject.Namespace != namespace {
			s.elsewhere = named("namespace", subject.Namespace)
		}
	}
	return s, nil
}

// foreign says why the agent that is there is not the import's to change; empty when
// it is, or there is none.
func (s observation) foreign(name string) string {
	if s.elsewhere != "" {
		return fmt.Sprintf("the cluster has an agent in %s: set spec.agent.namespace to it, or remove that agent first", s.elsewhere)
	}
	d := s.deployment
	if d == nil {
		return ""
	}
	by := klusterlet.InstalledBy(d)
	byTerraform := slices.ContainsFunc(d.ManagedFields, func(f metav1.ManagedFieldsEntry) bool {
		return f.Manager == muster.TerraformFieldManager && f.Operation == metav1.ManagedFieldsOperationApply
	})
	serves := klusterlet.Serves(d)
	switch {
	case by == muster.InstalledByTerraform || by == "" && byTerraform:
		return "Terraform's muster_klusterlet installs the agent in this cluster: remove that resource, or delete this import. " +
			"To hand the agent over, remove the resource with terraform state rm, and the annotation " + muster.InstalledByAnnotation + " from its Deployment"
	case serves == "":
		return fmt.Sprintf("the Deployment %s is another program's: remove it first, or set spec.agent.namespace", klusterlet.Name)
	case serves != name:
		return fmt.Sprintf("the cluster has an agent that serves %s: give this import that name, or remove the agent first", named("name", serves))
	}
	return ""
}

// named is a name that a cluster has answered with, in words, and without the name if
// it is none.
func named(what, name string) string {
	if len(validation.IsDNS1123Label(name)) > 0 {
		return "another " + what
	}
	return fmt.Sprintf("the %s %q", what, name)
}

// options are how an import's agent is rendered.
func options(imp *v1alpha1.ClusterImport, bootstrap []byte) klusterlet.Options {
	o := klusterlet.Options{
		ClusterName: imp.Name, BootstrapKubeconfig: bootstrap, InstalledBy: muster.InstalledByImport,
		AgentOptions: *imp.Spec.Agent.DeepCopy(),
	}
	if o.Namespace == "" {
		o.Namespace = cluster.AgentNamespace
	}
	if o.Annotations == nil {
		o.Annotations = map[string]string{}
	}
	return o
}

// render are the agent's objects, and the hash of what is not secret of them.
func render(imp *v1alpha1.ClusterImport, to endpoint, bootstrap []byte) (objects []klusterlet.Object, hash string, err error) {
	o := options(imp, bootstrap)
	o.Annotations = maps.Clone(o.Annotations)
	o.Annotations[endpointAnnotation] = to.hash()
	if imp.Spec.Redeploy > 0 {
		o.Annotations[redeployAnnotation] = strconv.FormatInt(imp.Spec.Redeploy, 10)
	}
	public := o
	public.BootstrapKubeconfig = nil
	raw, err := json.Marshal(klusterlet.Render(public))
	if err != nil {
		return nil, "", fmt.Errorf("render the agent: %w", err)
	}
	sum := sha256.Sum256(raw)
	return klusterlet.Render(o), hex.EncodeToString(sum[:16]), nil
}

// apply writes an object as the import's own fields, and reports whether that changed
// anything.
func (c *connection) apply(ctx context.Context, object klusterlet.Object) (changed bool, err error) {
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		return false, &hubError{fmt.Errorf("encode %s: %w", describe(object), err)}
	}
	delete(fields, "status")
	wanted := &unstructured.Unstructured{Object: fields}
	unstructured.RemoveNestedField(wanted.Object, "metadata", "creationTimestamp")
	unstructured.RemoveNestedField(wanted.Object, "spec", "template", "metadata", "creationTimestamp")
	before := &metav1.PartialObjectMetadata{}
	before.SetGroupVersionKind(wanted.GroupVersionKind())
	if _, err := get(ctx, c, before, object.GetNamespace(), object.GetName()); err != nil {
		return false, err
	}
	send := func() error {
		return c.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(wanted), client.FieldOwner(fieldManager), client.ForceOwnership)
	}
	err = send()
	if apierrors.IsInvalid(err) && before.UID != "" && replaceable(object) {
		// What can't be changed, such as a binding's role, takes a new object.
		if err = client.IgnoreNotFound(c.Delete(ctx, before, client.Preconditions{UID: &before.UID})); err == nil {
			err = send()
		}
	}
	if err != nil {
		return false, &stepError{"apply the " + describe(object), err}
	}
	return wanted.GetResourceVersion() != before.ResourceVersion, nil
}

// restore takes out of an object what somebody has added to it, which an apply leaves
// alone, and returns what that was.
func (c *connection) restore(ctx context.Context, wanted klusterlet.Object) (removed []string, err error) {
	if !klusterlet.MayHaveAdditions(wanted) {
		return nil, nil
	}
	live := reflect.New(reflect.TypeOf(wanted).Elem()).Interface().(client.Object)
	if found, err := get(ctx, c, live, wanted.GetNamespace(), wanted.GetName()); err != nil || !found {
		return nil, err
	}
	restored, removed, err := klusterlet.Restored(wanted, live)
	if err != nil || len(removed) == 0 {
		return nil, err
	}
	if err := c.Update(ctx, restored, client.FieldOwner(fieldManager)); err != nil {
		return nil, &stepError{"remove what was added to the " + describe(wanted), err}
	}
	for i := range removed {
		removed[i] = describe(wanted) + ": " + removed[i]
	}
	return removed, nil
}

func replaceable(object klusterlet.Object) bool {
	switch object.(type) {
	case *rbacv1.RoleBinding, *rbacv1.ClusterRoleBinding:
		return true
	}
	return false
}

func describe(object klusterlet.Object) string {
	return object.GetObjectKind().GroupVersionKind().Kind + " " + object.GetName()
}

// remove deletes what the options no longer have.
func (c *connection) remove(ctx context.Context, o klusterlet.Options) (removed []string, err error) {
	for _, object := range klusterlet.Obsolete(o) {
		err := c.Delete(ctx, object.(client.Object))
		switch {
		case apierrors.IsNotFound(err):
		case err != nil:
			return removed, &stepError{"delete the " + describe(object), err}
		default:
			removed = append(removed, describe(object))
		}
	}
	return removed, nil
}

// redirect has an agent with an identity go on at another endpoint of the same hub.
// Its identity comes first: an agent whose bootstrap kubeconfig leads elsewhere than
// its identity would register once more.
func (c *connection) redirect(ctx context.Context, s observation, to endpoint) (changed bool, err error) {
	for i, secret := range []*corev1.Secret{s.identity, s.bootstrap} {
		name := []string{cluster.HubKubeconfigSecret, cluster.BootstrapSecret}[i]
		if secret == nil || len(secret.Data[cluster.KubeconfigKey]) == 0 {
			continue
		}
		content, moved, err := to.moved(secret.Data[cluster.KubeconfigKey])
		if err != nil {
			return changed, &stepError{"change the hub's address in the Secret " + name, err}
		}
		if !moved {
			continue
		}
		secret.Data[cluster.KubeconfigKey] = content
		if err := c.Update(ctx, secret, client.FieldOwner(fieldManager)); err != nil {
			return changed, &stepError{"change the hub's address in the Secret " + name, err}
		}
		changed = true
	}
	return changed, nil
}

// rolledOut reports whether an agent's Deployment runs as it was written last.
func rolledOut(d *appsv1.Deployment) bool {
	return rolloutstatus.OfDeployment(d).State == rolloutstatus.Done
}

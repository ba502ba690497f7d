package action

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-fleet/terraform-provider-muster/internal/klusterlet"
	"github.com/muster-fleet/terraform-provider-muster/internal/text"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/crud"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/hub"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/kube"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

// checkLeaving refuses, before anything is done, what could not be finished: an import
// that would install the agent again, or an agent that is somebody else's to remove.
func (d *detaching) checkLeaving(ctx context.Context) error {
	if d.managed == nil {
		return nil
	}
	err := d.client.Get(ctx, &v1alpha1.ClusterImport{}, "", d.cluster)
	if err == nil {
		return refuse(fmt.Sprintf("The hub imports cluster %q", d.cluster),
			"Nothing was changed. The import would install the agent again: delete it first, and then run the same "+
				"again. Next:\n  kubectl delete clusterimport %s", d.cluster)
	}
	if !kube.IsNotFound(err, d.cluster) && !kube.IsKindNotServed(err) {
		return err
	}
	_, why, err := d.agentIn(ctx)
	if err == nil && why != "" {
		err = refuse(fmt.Sprintf("The agent is not to be removed for managed cluster %q", d.cluster),
			"Nothing was changed. In the cluster at %s %s.", d.managed.Host(), why)
	}
	return err
}

// agentIn is the namespace with the agent of the cluster, and why that agent is not this
// command's to remove; empty when it is, or there is none.
func (d *detaching) agentIn(ctx context.Context) (namespace, why string, err error) {
	namespace = cluster.AgentNamespace
	binding := &rbacv1.ClusterRoleBinding{}
	err = d.managed.Get(ctx, binding, "", klusterlet.RegistrationRole)
	if err != nil && !kube.IsNotFound(err, klusterlet.RegistrationRole) {
		return "", "", d.inCluster("find the agent", err)
	}
	for _, subject := range binding.Subjects {
		if subject.Namespace != "" {
			namespace = subject.Namespace
		}
	}
	deployment := &appsv1.Deployment{}
	err = d.managed.Get(ctx, deployment, namespace, klusterlet.Name)
	switch {
	case kube.IsNotFound(err, klusterlet.Name) || kube.IsNamespaceNotFound(err, namespace):
		return namespace, "", nil
	case err != nil:
		return "", "", d.inCluster("find the agent", err)
	}
	switch serves := klusterlet.Serves(deployment); {
	case klusterlet.InstalledBy(deployment) == muster.InstalledByTerraform:
		why = "a muster_klusterlet has installed the agent: destroy that, which removes it"
	case serves == "":
		why = fmt.Sprintf("the Deployment %s/%s is another program's", namespace, klusterlet.Name)
	case serves != d.cluster:
		why = fmt.Sprintf("the agent serves the name %q: check the kubeconfig and the name", serves)
	}
	return namespace, why, nil
}

func (d *detaching) inCluster(doing string, err error) error {
	summary := fmt.Sprintf("Cannot %s in cluster %q", doing, d.cluster)
	return refuse(summary, "%s", hub.Explain(d.managed.Host(), doing, err))
}

// leave removes from the cluster what was installed there with the agent, and lists what
// is left. What is gone already is as good as removed.
func (d *detaching) leave(ctx context.Context) error {
	if d.managed == nil {
		return nil
	}
	namespace, why, err := d.agentIn(ctx)
	if err != nil {
		return err
	}
	if why != "" {
		return refuse(fmt.Sprintf("The agent of managed cluster %q was not removed", d.cluster),
			"In the cluster at %s %s.", d.managed.Host(), why)
	}
	kept, err := d.remove(ctx, namespace)
	if err != nil {
		return err
	}
	if kept = append(kept, d.recordsKept(ctx)...); len(kept) == 0 {
		d.say("Nothing of the hub is left in the cluster %s.", d.cluster)
		return nil
	}
	d.warn(fmt.Sprintf("Left in the cluster %q", d.cluster),
		"The agent, its rights and its Secrets are removed. These stay:\n  %s", strings.Join(kept, "\n  "))
	return nil
}

// remove deletes the agent's objects, the Deployment first and the namespaces last. kept is
// what stays of them, and why.
func (d *detaching) remove(ctx context.Context, namespace string) (kept []string, err error) {
	options := klusterlet.Options{ClusterName: d.cluster}
	options.Namespace = namespace
	objects := klusterlet.Objects(options)
	slices.Reverse(objects)
	// The identity is no object of the installation. Without it nobody in the cluster
	// has a credential of the hub, also where the namespace stays.
	identity := &corev1.Secret{}
	identity.Namespace, identity.Name = namespace, cluster.HubKubeconfigSecret
	identity.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
	objects = slices.Insert(objects, 1, klusterlet.Object(identity))
	for _, object := range objects {
		kind, name := object.GetObjectKind().GroupVersionKind().Kind, object.GetName()
		if kind == "Namespace" {
			if why := d.occupied(ctx, name); why != "" {
				kept = append(kept, fmt.Sprintf("Namespace %s: %s", name, why))
				continue
			}
		}
		deletion, err := d.managed.Delete(ctx, object, object.GetNamespace(), name, "")
		if err == nil && !deletion.Gone {
			err = d.managed.WaitGone(ctx, object, object.GetNamespace(), name, deletion.UID)
		}
		switch {
		case kube.IsNamespaceNotFound(err, object.GetNamespace()):
		case hub.IsTimeout(err):
			return nil, refuse(fmt.Sprintf("The agent is not removed from cluster %q yet", d.cluster),
				"%s %s is still being deleted. Run the same again to go on.\n%s", kind, name,
				hub.DescribeDeletion(object, time.Now()))
		case err != nil:
			return nil, refuse(fmt.Sprintf("Cannot remove %s %s from cluster %q", kind, name, d.cluster),
				"%s\n\nRun the same again to go on.", hub.Explain(d.managed.Host(), "remove it", err))
		}
	}
	d.say("The agent, its roles and its namespaces are removed from the cluster %s.", d.cluster)
	return kept, nil
}

// occupied says whose a namespace is as well; empty when nobody else's.
func (d *detaching) occupied(ctx context.Context, namespace string) string {
	deployments := &appsv1.DeploymentList{}
	if err := d.managed.List(ctx, deployments, kube.ListOptions{Namespace: namespace}); err != nil {
		return "its contents can't be read: " + err.Error()
	}
	var others []string
	for _, other := range deployments.Items {
		if other.Name != klusterlet.Name {
			others = append(others, "Deployment "+other.Name)
		}
	}
	if len(others) == 0 {
		return ""
	}
	return "others have objects in it: " + text.List(attribute.Sorted(others), 5)
}

// recordsKept lists what the agent has made in the cluster, and what stays of it.
func (d *detaching) recordsKept(ctx context.Context) (kept []string) {
	works := &workv1.AppliedManifestWorkList{}
	err := d.managed.List(ctx, works, kube.ListOptions{})
	if err != nil && !kube.IsKindNotServed(err) && !kube.IsNotFound(err, "") {
		kept = append(kept, "AppliedManifestWorks: they can't be read: "+err.Error())
	}
	for _, w := range works.Items {
		kept = append(kept, fmt.Sprintf("AppliedManifestWork %s, and %s of its work: no agent has removed them, "+
			"or they are another hub's. Without its finalizers, deleting it deletes these objects", w.Name,
			crud.Count(len(w.Status.AppliedResources), "object")))
	}
	for _, name := range []string{"appliedmanifestworks.work.open-cluster-management.io",
		"clusterclaims.cluster.open-cluster-management.io"} {
		definition := &metav1.PartialObjectMetadata{}
		if d.managed.GetPath(ctx, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/"+name, definition) == nil {
			kept = append(kept, fmt.Sprintf("CustomResourceDefinition %s: other agents and your own objects may "+
				"use it. If none do: kubectl delete crd %[1]s", name))
		}
	}
	return kept
}

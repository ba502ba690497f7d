package clusterimport

import (
	"context"
	"errors"
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework/path"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-fleet/terraform-provider-muster/internal/kubeconfig"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/crud"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/hub"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/kube"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
)

// problemsOfKubeconfig says why a hub would refuse a kubeconfig; empty when it might
// not. Nothing of the kubeconfig but its server's host is in the text.
func problemsOfKubeconfig(content string) string {
	c, err := kubeconfig.Contain([]byte(content))
	if err != nil {
		return fmt.Sprintf("The hub uses the kubeconfig in place of its owner, and so takes no kubeconfig that "+
			"needs anything beside itself: %s.", err)
	}
	hosts := []string{c.Server.Hostname()}
	if c.Proxy != nil {
		hosts = append(hosts, c.Proxy.Hostname())
	}
	for _, host := range hosts {
		// Only the hub knows whether it may connect to its own machine.
		if why := kubeconfig.RefusedHost(host, nil, true); why != "" {
			return fmt.Sprintf("The hub does not connect to %s: %s. Give an address of the cluster.", host, why)
		}
	}
	return ""
}

// handIn puts a kubeconfig where the hub finds it, and returns the version of the
// Secret. A Secret that somebody else has put there stays as it is.
func handIn(ctx context.Context, c *change, content string) (version string, ok bool) {
	if why := problemsOfKubeconfig(content); why != "" {
		c.Diagnostics.AddAttributeError(path.Root("kubeconfig_wo"), "Invalid kubeconfig", why)
		return "", false
	}
	var err error
	for range attempts { // The hub may forget the one from before meanwhile.
		if version, err = putSecret(ctx, c, content); !apierrors.IsConflict(err) {
			break
		}
	}
	var foreign *foreignError
	switch {
	case errors.As(err, &foreign):
		c.Diagnostics.AddAttributeError(path.Root("kubeconfig_secret"), "Exists already: Secret "+foreign.where,
			fmt.Sprintf("The hub %s has the Secret already, and this resource has not handed it in. It was not "+
				"changed. To use it as it is, remove kubeconfig_wo and kubeconfig_wo_version. To overwrite it, set "+
				"adopt = true. To leave it to its owner, set kubeconfig_secret to another name.", c.Client.Host()))
	case err != nil:
		hub.AddAPIError(c.Diagnostics, c.Client, "hand in the kubeconfig of "+c.What, err)
	}
	return version, err == nil
}

// attempts is how often a Secret is written that changes at the same time.
const attempts = 3

// foreignError says that a Secret is somebody else's.
type foreignError struct{ where string }

func (e *foreignError) Error() string { return "the Secret " + e.where + " is somebody else's" }

func putSecret(ctx context.Context, c *change, content string) (version string, err error) {
	name, of := c.Plan.Text("kubeconfig_secret"), c.Keys[0]
	live := &corev1.Secret{}
	options := kube.ApplyOptions{Manager: hub.FieldManager, Force: true}
	switch err := c.Client.Get(ctx, live, muster.ImportNamespace, name); {
	case kube.IsNotFound(err, name):
		options.CreateOnly = true
	case err != nil:
		return "", err
	case !handedInFor(live, of) && !c.Plan.Bool("adopt"):
		return "", &foreignError{muster.ImportNamespace + "/" + name}
	}
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: muster.ImportNamespace, Name: name, ResourceVersion: live.ResourceVersion,
			Annotations: map[string]string{muster.HandedInForAnnotation: of},
		},
		Data: map[string][]byte{"kubeconfig": []byte(content)},
	}
	err = c.Client.Apply(ctx, secret, options)
	return secret.ResourceVersion, err
}

// handedInFor reports whether a Secret is Terraform's, for the import of this name.
func handedInFor(secret *corev1.Secret, name string) bool {
	return secret.Annotations[muster.HandedInForAnnotation] == name && !crud.FieldsOf(secret, hub.FieldManager).None()
}

// withdraw deletes the kubeconfig of the state, where the hub has not forgotten it.
func withdraw(ctx context.Context, c *change) {
	name := c.Prior.Text("kubeconfig_secret")
	live := &corev1.Secret{}
	err := c.Client.Get(ctx, live, muster.ImportNamespace, name)
	if err == nil && handedInFor(live, c.Keys[0]) {
		_, err = c.Client.DeleteIf(ctx, &corev1.Secret{}, muster.ImportNamespace, name,
			metav1.Preconditions{UID: &live.UID, ResourceVersion: &live.ResourceVersion})
	}
	if err != nil && !kube.IsNotFound(err, name) && !apierrors.IsConflict(err) {
		hub.AddAPIError(c.Diagnostics, c.Client, "delete the kubeconfig of "+c.What, err)
	}
}

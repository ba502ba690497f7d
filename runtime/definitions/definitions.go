// Package definitions installs definitions of custom resources on an API
// server: the hub's on the hub, the agent's on a managed cluster. Its input is
// what runtime/api/crds has. It must not import the hub, the agent or the
// provider.
package definitions

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"

	"golang.org/x/sync/errgroup"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset/typed/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
	"k8s.io/client-go/util/retry"
)

// hashAnnotation on a definition holds the hash of what was installed, so that
// an unchanged one costs no write.
const hashAnnotation = "muster-fleet.io/definition-hash"

// Install creates or updates the definitions and returns once the server
// serves all of them.
func Install(ctx context.Context, config *rest.Config, crds []*apiextensionsv1.CustomResourceDefinition) error {
	clientset, err := apiextensions.NewForConfig(config)
	if err != nil {
		return err
	}
	client := clientset.CustomResourceDefinitions()
	present, err := client.List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("list the definitions of custom resources: %w", err)
	}
	known := map[string]*apiextensionsv1.CustomResourceDefinition{}
	for i := range present.Items {
		known[present.Items[i].Name] = &present.Items[i]
	}
	var group errgroup.Group
	for _, crd := range crds {
		group.Go(func() error {
			if err := ensureDefinition(ctx, client, crd, known[crd.Name]); err != nil {
				return fmt.Errorf("install the definition %s: %w", crd.Name, err)
			}
			return nil
		})
	}
	return group.Wait()
}

func ensureDefinition(ctx context.Context, client apiextensions.CustomResourceDefinitionInterface, want, have *apiextensionsv1.CustomResourceDefinition) error {
	want = want.DeepCopy()
	hash, err := hashOf(want)
	if err != nil {
		return err
	}
	if want.Annotations == nil {
		want.Annotations = map[string]string{}
	}
	want.Annotations[hashAnnotation] = hash
	if have == nil {
		have, err = client.Create(ctx, want, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) { // another replica was quicker
			have, err = client.Get(ctx, want.Name, metav1.GetOptions{})
		}
		if err != nil {
			return err
		}
	}
	if have.Annotations[hashAnnotation] != hash || !equality.Semantic.DeepEqual(have.Spec.Conversion, conversionFor(want, have)) {
		err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
			have, err = client.Get(ctx, want.Name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			if have.Annotations == nil {
				have.Annotations = map[string]string{}
			}
			maps.Copy(have.Annotations, want.Annotations)
			conversion := conversionFor(want, have)
			have.Spec = want.Spec
			have.Spec.Conversion = conversion
			have, err = client.Update(ctx, have, metav1.UpdateOptions{})
			return err
		})
		if err != nil {
			return err
		}
	}
	if established(have) {
		return nil
	}
	byName := fields.OneTermEqualSelector("metadata.name", want.Name).String()
	_, err = watchtools.UntilWithSync(ctx, &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			o.FieldSelector = byName
			return client.List(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.FieldSelector = byName
			return client.Watch(ctx, o)
		},
	}, &apiextensionsv1.CustomResourceDefinition{}, nil, func(e watch.Event) (bool, error) {
		crd, ok := e.Object.(*apiextensionsv1.CustomResourceDefinition)
		return ok && established(crd), nil
	})
	return err
}

// conversionFor is how an installed definition is to convert: as ours says, unless
// a user has put another webhook into it.
func conversionFor(want, have *apiextensionsv1.CustomResourceDefinition) *apiextensionsv1.CustomResourceConversion {
	ours := want.Spec.Conversion
	if ours == nil {
		ours = &apiextensionsv1.CustomResourceConversion{Strategy: apiextensionsv1.NoneConverter}
	}
	theirs := have.Spec.Conversion
	switch {
	case theirs == nil || theirs.Strategy != apiextensionsv1.WebhookConverter:
		return ours
	case ours.Strategy == apiextensionsv1.WebhookConverter && webhookService(theirs) == webhookService(ours):
		return ours // of an earlier version
	}
	return theirs
}

// webhookService is the service that converts, if one does.
func webhookService(c *apiextensionsv1.CustomResourceConversion) types.NamespacedName {
	if c.Webhook == nil || c.Webhook.ClientConfig == nil || c.Webhook.ClientConfig.Service == nil {
		return types.NamespacedName{}
	}
	s := c.Webhook.ClientConfig.Service
	return types.NamespacedName{Namespace: s.Namespace, Name: s.Name}
}

func established(crd *apiextensionsv1.CustomResourceDefinition) bool {
	for _, c := range crd.Status.Conditions {
		if c.Type == apiextensionsv1.Established {
			return c.Status == apiextensionsv1.ConditionTrue
		}
	}
	return false
}

func hashOf(crd *apiextensionsv1.CustomResourceDefinition) (string, error) {
	data, err := json.Marshal(crd)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:8]), nil
}

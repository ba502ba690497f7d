package install

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/internal/hubinfo"
)

// Place is where a hub is.
type Place struct {
	// URL is where agents and users reach it.
	URL string
	// ExternalURLs are those that agents are to use, the one to prefer first;
	// empty when each agent has its own.
	ExternalURLs []string
	// ExternalCAs are further authorities to verify the hub by, in PEM.
	ExternalCAs []byte
}

// publishEndpoints writes the config map by which agents learn that the hub has
// moved. used is the URL that the hub has published for new agents so far. What
// somebody else has written into it is overwritten.
func publishEndpoints(ctx context.Context, c client.Client, p Place, bundle []byte, used string) error {
	system := &corev1.Namespace{}
	if err := c.Get(ctx, client.ObjectKey{Name: metav1.NamespaceSystem}, system); err != nil {
		return fmt.Errorf("read the UID of the hub: %w", err)
	}
	err := retry.OnError(retry.DefaultRetry, func(err error) bool { return apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) }, func() error {
		config := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespacePublic, Name: hubinfo.EndpointsName}}
		err := c.Get(ctx, client.ObjectKeyFromObject(config), config)
		if client.IgnoreNotFound(err) != nil {
			return err
		}
		absent := err != nil
		before, err := hubinfo.ParseEndpoints(config.Data)
		if err != nil {
			// None, or one that agents take no notice of. Its number still counts.
			before = hubinfo.Endpoints{Generation: hubinfo.GenerationOf(config.Data)}
		}
		next := hubinfo.Next(before, p.ExternalURLs, bundle, used)
		next.HubUID = string(system.UID)
		config.Data = next.Data()
		if absent {
			return c.Create(ctx, config)
		}
		return c.Update(ctx, config)
	})
	if err != nil {
		return fmt.Errorf("publish where the hub is in the config map %s/%s: %w", metav1.NamespacePublic, hubinfo.EndpointsName, err)
	}
	return nil
}

// publishedURL is the URL in the cluster-info; empty when there is none.
func publishedURL(ctx context.Context, c client.Reader) (string, error) {
	info := &corev1.ConfigMap{}
	if err := c.Get(ctx, client.ObjectKey{Namespace: metav1.NamespacePublic, Name: hubinfo.ClusterInfo}, info); err != nil {
		return "", client.IgnoreNotFound(err)
	}
	published, err := clientcmd.Load([]byte(info.Data["kubeconfig"]))
	if err != nil {
		return "", fmt.Errorf("read %s/%s: %w", metav1.NamespacePublic, hubinfo.ClusterInfo, err)
	}
	for _, x := range published.Clusters {
		return x.Server, nil
	}
	return "", nil
}

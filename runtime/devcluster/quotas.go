package devcluster

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apiserver/pkg/quota/v1/generic"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/controller-manager/pkg/informerfactory"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/controller"
	"k8s.io/kubernetes/pkg/controller/resourcequota"
	quotainstall "k8s.io/kubernetes/pkg/quota/v1/install"

	"github.com/muster-fleet/terraform-provider-muster/runtime/controlplane"
)

const (
	quotaWorkers = 2
	// quotaResync is how often the use of all quotas is counted once more, and
	// quotaDiscovery how often new kinds are looked for.
	quotaResync    = 5 * time.Minute
	quotaDiscovery = 30 * time.Second
)

// quotaController is Kubernetes' own controller that counts what is used of resource
// quotas, without which an API server takes no notice of them. It watches every kind
// that can be counted, so it starts with the first quota: most dev clusters have
// none.
func quotaController(client kubernetes.Interface, config *rest.Config, f informers.SharedInformerFactory) controlplane.Controller {
	quotas := f.Core().V1().ResourceQuotas().Informer()
	return func(ctx context.Context) {
		first := make(chan struct{}, 1)
		if _, err := quotas.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: func(any) {
			select {
			case first <- struct{}{}:
			default:
			}
		}}); err != nil {
			return // the informer has been stopped
		}
		select {
		case <-ctx.Done():
			return
		case <-first:
		}
		if err := runQuotas(ctx, client, config); err != nil && ctx.Err() == nil {
			klog.FromContext(ctx).Error(err, "Resource quotas are not counted")
		}
	}
}

// runQuotas counts what is used of quotas until ctx ends.
func runQuotas(ctx context.Context, client kubernetes.Interface, config *rest.Config) error {
	objects, err := metadata.NewForConfig(config)
	if err != nil {
		return err
	}
	f := informers.NewSharedInformerFactory(client, 0)
	evaluators, err := quotainstall.NewQuotaConfigurationForControllers(generic.ListerFuncForResourceFunc(f.ForResource), f)
	if err != nil {
		return fmt.Errorf("prepare the evaluators of quotas: %w", err)
	}
	started := make(chan struct{})
	c, err := resourcequota.NewController(ctx, &resourcequota.ControllerOptions{
		QuotaClient:               client.CoreV1(),
		ResourceQuotaInformer:     f.Core().V1().ResourceQuotas(),
		ResyncPeriod:              controller.StaticResyncPeriodFunc(quotaResync),
		InformerFactory:           informerfactory.NewInformerFactory(f, metadatainformer.NewSharedInformerFactory(objects, 0)),
		ReplenishmentResyncPeriod: controller.StaticResyncPeriodFunc(0),
		DiscoveryFunc:             client.Discovery().ServerPreferredNamespacedResources,
		IgnoredResourcesFunc:      evaluators.IgnoredResources,
		InformersStarted:          started,
		Registry:                  generic.NewRegistry(evaluators.Evaluators()),
		UpdateFilter:              quotainstall.DefaultUpdateFilter(),
	})
	if err != nil {
		return fmt.Errorf("make the controller of quotas: %w", err)
	}
	f.Start(ctx.Done())
	close(started)
	controlplane.RunAll(ctx, []controlplane.Controller{
		func(ctx context.Context) { c.Run(ctx, quotaWorkers) },
		func(ctx context.Context) {
			c.Sync(ctx, client.Discovery().ServerPreferredNamespacedResources, quotaDiscovery)
		},
	})
	return nil
}

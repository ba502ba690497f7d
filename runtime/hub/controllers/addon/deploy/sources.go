package deploy

import (
	"context"
	"fmt"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/runtime/addon/configs"
	"github.com/muster-fleet/terraform-provider-muster/runtime/addon/template"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1alpha1"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/addons"
)

// sources are templates and deployment configurations, each hashed and parsed once
// for all clusters. They are safe for concurrent use.
type sources struct {
	reader client.Reader

	mu    sync.Mutex
	known map[sourceKey]*configObject
}

type sourceKey struct {
	kind string
	types.NamespacedName
}

// configObject is one version of a configuration object. Nobody may change it.
type configObject struct {
	uid     types.UID
	version string
	hash    string

	// Of a template: parsed, or the problem that it has in every cluster, and what it
	// says of works beside their manifests.
	parsed  *template.Template
	problem error
	spec    workv1.ManifestWorkSpec

	// config is of a deployment configuration.
	config *v1alpha1.AddOnDeploymentConfig
}

func newSources(r client.Reader) *sources {
	return &sources{reader: r, known: map[sourceKey]*configObject{}}
}

// template is an AddOnTemplate with the hash that it has to have.
func (s *sources) template(ctx context.Context, want v1alpha1.ConfigSpecHash) (*configObject, error) {
	return s.get(ctx, addon.TemplateResource, want)
}

// config is an AddOnDeploymentConfig with the hash that it has to have.
func (s *sources) config(ctx context.Context, want v1alpha1.ConfigSpecHash) (*v1alpha1.AddOnDeploymentConfig, error) {
	found, err := s.get(ctx, addon.DeploymentConfigResource, want)
	if err != nil {
		return nil, err
	}
	return found.config, nil
}

// get is a configuration object. The error is errWaiting when it is not what the
// cluster is to have.
func (s *sources) get(ctx context.Context, resource string, want v1alpha1.ConfigSpecHash) (*configObject, error) {
	key := sourceKey{addons.KindOf(resource), types.NamespacedName{Namespace: want.Namespace, Name: want.Name}}
	o := &unstructured.Unstructured{} // as on the wire, for the hash
	o.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind(key.kind))
	if err := s.reader.Get(ctx, key.NamespacedName, o, client.UnsafeDisableDeepCopy); err != nil {
		if apierrors.IsNotFound(err) {
			s.forget(key)
			return nil, &problemError{fmt.Errorf("there is no %s %q: create it again, or name another one", key.kind, strings.TrimPrefix(key.String(), "/"))}
		}
		return nil, fmt.Errorf("read the %s %s: %w", key.kind, key.NamespacedName, err)
	}
	found, err := s.read(key, o)
	if err != nil {
		return nil, fmt.Errorf("read the %s %s: %w", key.kind, key.NamespacedName, err)
	}
	if found.hash != want.SpecHash {
		return nil, errWaiting
	}
	return found, nil
}

func (s *sources) forget(key sourceKey) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.known, key)
}

// read is what is known of an object, or is found out now.
func (s *sources) read(key sourceKey, o *unstructured.Unstructured) (*configObject, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if have := s.known[key]; have != nil && have.uid == o.GetUID() && have.version == o.GetResourceVersion() {
		return have, nil
	}
	out := &configObject{uid: o.GetUID(), version: o.GetResourceVersion()}
	var err error
	if out.hash, err = configs.Hash(o.Object); err != nil {
		return nil, err
	}
	if key.kind == addons.KindOf(addon.TemplateResource) {
		t := &v1alpha1.AddOnTemplate{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, t); err != nil {
			return nil, err
		}
		out.parsed, out.problem = template.Parse(t)
		out.spec = t.Spec.AgentSpec
		out.spec.Workload.Manifests = nil
	} else {
		out.config = &v1alpha1.AddOnDeploymentConfig{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, out.config); err != nil {
			return nil, err
		}
	}
	s.known[key] = out
	return out, nil
}

package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"github.com/muster-fleet/terraform-provider-muster/internal/tracing"
)

// Object is any Kubernetes object.
type Object interface {
	metav1.Object
	runtime.Object
}

// Client reads and writes objects on one API server.
type Client struct {
	config *rest.Config
	// transport is below the retries; clients of one server share it.
	transport http.RoundTripper
	http      *http.Client
	scheme    *runtime.Scheme
	mapper    meta.RESTMapper
	codecs    serializer.CodecFactory
	clock     clock.WithTicker
	// lookups are shared, too.
	lookups *lookups

	mu    sync.Mutex
	rests map[schema.GroupVersion]rest.Interface
}

// Options tune a Client.
type Options struct {
	// Scheme holds the kinds that the client handles.
	Scheme *runtime.Scheme
	// Mapper tells where they are served.
	Mapper meta.RESTMapper
	// RetryBudget is how long the server may be away before requests fail. 0
	// stands for DefaultRetryBudget.
	RetryBudget time.Duration
	// Observe, which may be nil, is called after every request.
	Observe func(context.Context, Exchange)
	// Clock is for tests; nil is the real one.
	Clock clock.WithTicker
}

// New makes a client. It sends nothing yet.
func New(config *rest.Config, options Options) (*Client, error) {
	if options.Clock == nil {
		options.Clock = clock.RealClock{}
	}
	if options.RetryBudget == 0 {
		options.RetryBudget = DefaultRetryBudget
	}
	transport, err := rest.TransportFor(rereadingToken(withoutNeedlessCompression(config)))
	if err != nil {
		return nil, fmt.Errorf("preparing the connection to %s: %w", config.Host, err)
	}
	if config.ExecProvider != nil {
		transport = &explainingTransport{next: transport, program: config.ExecProvider}
	}
	transport = tracing.Transport(newOneConnection(transport))
	if options.Observe != nil {
		transport = &observingTransport{next: transport, clock: options.Clock, observe: options.Observe}
	}
	c := &Client{
		config:    config,
		transport: transport,
		scheme:    options.Scheme,
		mapper:    options.Mapper,
		codecs:    serializer.NewCodecFactory(options.Scheme),
		clock:     options.Clock,
		lookups:   newLookups(options.Clock),
	}
	return c.WithRetryBudget(options.RetryBudget), nil
}

// WithRetryBudget is a client over the same connections with another patience: how
// long the server may be away before requests fail.
func (c *Client) WithRetryBudget(budget time.Duration) *Client {
	retrying := &retryTransport{c.transport, &outage{budget: budget, renewable: renewable(c.config), clock: c.clock}}
	return &Client{
		config: c.config, transport: c.transport, http: &http.Client{Transport: retrying}, scheme: c.scheme,
		mapper: c.mapper, codecs: c.codecs, clock: c.clock, lookups: c.lookups,
		rests: map[schema.GroupVersion]rest.Interface{},
	}
}

// Host is the server's URL.
func (c *Client) Host() string { return c.config.Host }

// CAData is the PEM bundle by which the client verifies the server, empty when
// it trusts the system's authorities.
func (c *Client) CAData() ([]byte, error) {
	config := rest.CopyConfig(c.config)
	if err := rest.LoadTLSFiles(config); err != nil {
		return nil, fmt.Errorf("read the certificate authority of %s: %w", config.Host, err)
	}
	return config.CAData, nil
}

// Get reads an object into obj.
func (c *Client) Get(ctx context.Context, obj Object, namespace, name string) error {
	request, err := c.request(obj, http.MethodGet, namespace, name)
	if err != nil {
		return err
	}
	return decodeFresh(request.Do(ctx), obj)
}

// ListOptions narrow a List or a wait.
type ListOptions struct {
	Namespace     string
	LabelSelector string
	FieldSelector string
}

// List reads objects into list. The answer may come from the server's cache but
// is never older than the latest write that the server acknowledged.
func (c *Client) List(ctx context.Context, list runtime.Object, options ListOptions) error {
	request, err := c.request(list, http.MethodGet, options.Namespace, "")
	if err != nil {
		return err
	}
	return selecting(request, options).Do(ctx).Into(list)
}

// GetPath reads the JSON that the server answers beside its API.
func (c *Client) GetPath(ctx context.Context, path string, into any) error {
	client, err := c.rest(metav1.SchemeGroupVersion)
	if err != nil {
		return err
	}
	text, err := client.Get().AbsPath(path).MaxRetries(0).Do(ctx).Raw()
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, into); err != nil {
		return fmt.Errorf("read the answer of %s%s: %w", c.config.Host, path, err)
	}
	return nil
}

// maxLog is how many bytes of a log are read.
const maxLog = 4096

// Log reads the last lines that a container of a pod has logged.
func (c *Client) Log(ctx context.Context, namespace, pod, container string, lines int) (string, error) {
	client, err := c.rest(corev1.SchemeGroupVersion)
	if err != nil {
		return "", err
	}
	text, err := client.Get().Namespace(namespace).Resource("pods").Name(pod).SubResource("log").
		Param("container", container).Param("tailLines", strconv.Itoa(lines)).Param("limitBytes", strconv.Itoa(maxLog)).
		MaxRetries(0).Do(ctx).Raw()
	return string(text), err
}

// ResourceOf is what the objects of a kind are called in paths and commands, such as
// manifestworks.
func (c *Client) ResourceOf(obj runtime.Object) (string, error) {
	gvk, err := c.kindOf(obj)
	if err != nil {
		return "", err
	}
	mapping, err := c.mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	if err != nil {
		return "", fmt.Errorf("find where %s is served: %w", gvk.Kind, err)
	}
	return mapping.Resource.Resource, nil
}

func selecting(request *rest.Request, options ListOptions) *rest.Request {
	return with(request, map[string]string{
		"labelSelector": options.LabelSelector, "fieldSelector": options.FieldSelector,
	})
}

// with adds parameters to a request, without those that are empty.
func with(request *rest.Request, parameters map[string]string) *rest.Request {
	for name, value := range parameters {
		if value != "" {
			request = request.Param(name, value)
		}
	}
	return request
}

// Update replaces an object that has not changed since its resource version, and reads the
// result into obj.
func (c *Client) Update(ctx context.Context, obj Object, manager string) error {
	return c.UpdateSubresource(ctx, obj, "", manager)
}

// UpdateSubresource replaces a subresource such as approval.
func (c *Client) UpdateSubresource(ctx context.Context, obj Object, subresource, manager string) error {
	return c.write(ctx, obj, writing{verb: http.MethodPut, subresource: subresource, manager: manager, body: obj}, obj)
}

// CreateSubresource posts to a subresource, such as a service account's token,
// and reads the answer into body. Like Create, it is not repeated.
func (c *Client) CreateSubresource(ctx context.Context, of Object, subresource string, body Object) error {
	return c.write(ctx, of, writing{verb: http.MethodPost, subresource: subresource, body: body}, body)
}

// Create makes a new object and fails if it exists. It is not repeated when its
// answer is lost; prefer Apply.
func (c *Client) Create(ctx context.Context, obj Object) error {
	return c.write(ctx, obj, writing{verb: http.MethodPost, body: obj}, obj)
}

// decodeFresh decodes into a new object first, because decoding JSON into a
// used one would leave behind the map entries that the answer lacks.
func decodeFresh(result rest.Result, obj Object) error {
	fresh := fresh(obj)
	if err := result.Into(fresh); err != nil {
		return err
	}
	assign(obj, fresh)
	return nil
}

func (c *Client) kindOf(obj runtime.Object) (schema.GroupVersionKind, error) {
	kinds, _, err := c.scheme.ObjectKinds(obj)
	if err != nil {
		return schema.GroupVersionKind{}, fmt.Errorf("find the kind of %T: %w", obj, err)
	}
	return kinds[0], nil
}

func (c *Client) request(obj runtime.Object, verb, namespace, name string) (*rest.Request, error) {
	gvk, err := c.kindOf(obj)
	if err != nil {
		return nil, err
	}
	gvk.Kind = strings.TrimSuffix(gvk.Kind, "List")
	mapping, err := c.mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	if err != nil {
		return nil, fmt.Errorf("find where %s is served: %w", gvk.Kind, err)
	}
	client, err := c.rest(gvk.GroupVersion())
	if err != nil {
		return nil, err
	}
	request := client.Verb(verb).
		NamespaceIfScoped(namespace, namespace != "" && mapping.Scope.Name() == meta.RESTScopeNameNamespace).
		Resource(mapping.Resource.Resource).
		MaxRetries(0) // the transport retries
	if name != "" {
		request = request.Name(name)
	}
	return request, nil
}

func (c *Client) rest(gv schema.GroupVersion) (rest.Interface, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if client, ok := c.rests[gv]; ok {
		return client, nil
	}
	config := rest.CopyConfig(c.config)
	config.GroupVersion = &gv
	config.APIPath = "/apis"
	if gv.Group == "" {
		config.APIPath = "/api"
	}
	config.ContentType = runtime.ContentTypeJSON
	config.NegotiatedSerializer = c.codecs.WithoutConversion()
	client, err := rest.RESTClientForConfigAndClient(config, c.http)
	if err != nil {
		return nil, fmt.Errorf("preparing requests for %s: %w", gv, err)
	}
	c.rests[gv] = client
	return client, nil
}

// assign makes dst a copy of src, which has to be of the same type.
func assign(dst, src runtime.Object) {
	reflect.ValueOf(dst).Elem().Set(reflect.ValueOf(src).Elem())
}

// fresh is a new object of the type of obj.
func fresh(obj runtime.Object) runtime.Object {
	return reflect.New(reflect.TypeOf(obj).Elem()).Interface().(runtime.Object)
}

// Fresh is a new, empty object of the type of obj.
func Fresh(obj Object) Object { return fresh(obj).(Object) }

// Assign makes dst a copy of src. It fails if the two are of different types.
func Assign(dst, src Object) error {
	if reflect.TypeOf(dst) != reflect.TypeOf(src) {
		return fmt.Errorf("take a %T for a %T", src, dst)
	}
	assign(dst, src)
	return nil
}

// KindName is the kind of an object, such as ManifestWork.
func KindName(obj Object) string { return reflect.TypeOf(obj).Elem().Name() }

// TypeName tells the types of objects apart.
func TypeName(obj Object) string { return reflect.TypeOf(obj).String() }

// JSONFields are the types of a struct's fields by their names in JSON, with those of
// embedded structs.
func JSONFields(of reflect.Type) map[string]reflect.Type {
	fields := map[string]reflect.Type{}
	for field := range of.Fields() {
		name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		switch {
		case name == "-" || !field.IsExported():
		case name == "" && (field.Anonymous || strings.Contains(options, "inline")):
			maps.Copy(fields, JSONFields(field.Type))
		case name != "":
			fields[name] = field.Type
		}
	}
	return fields
}

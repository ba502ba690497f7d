package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
)

// Object is any Kubernetes object.
type Object interface {
	metav1.Object
	runtime.Object
}

// Client reads and writes objects on one API server.
type Client struct {
	config *rest.Config
	http   *http.Client
	scheme *runtime.Scheme
	mapper meta.RESTMapper
	codecs serializer.CodecFactory
	clock  clock.WithTicker

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
	transport, err := rest.TransportFor(config)
	if err != nil {
		return nil, fmt.Errorf("preparing the connection to %s: %w", config.Host, err)
	}
	if options.Observe != nil {
		transport = &observingTransport{next: transport, clock: options.Clock, observe: options.Observe}
	}
	return &Client{
		config: config,
		http:   &http.Client{Transport: newRetryTransport(transport, options.RetryBudget, options.Clock)},
		scheme: options.Scheme,
		mapper: options.Mapper,
		codecs: serializer.NewCodecFactory(options.Scheme),
		clock:  options.Clock,
		rests:  map[schema.GroupVersion]rest.Interface{},
	}, nil
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

func selecting(request *rest.Request, options ListOptions) *rest.Request {
	if options.LabelSelector != "" {
		request = request.Param("labelSelector", options.LabelSelector)
	}
	if options.FieldSelector != "" {
		request = request.Param("fieldSelector", options.FieldSelector)
	}
	return request
}

// ApplyOptions say in whose name and how a server-side apply is made.
type ApplyOptions struct {
	// Manager is the field manager.
	Manager string
	// Force takes fields over from other managers.
	Force bool
	// CreateOnly refuses, with a conflict, to change an object that exists.
	CreateOnly bool
	// DryRun has the server tell what would come of it, and change nothing.
	DryRun bool
}

// neverVersion is a resource version that no object has: a server's count begins
// with 1, before its first object. An apply that names a version only goes through
// for an object with that version, and for one that does not exist yet.
const neverVersion = "1"

// Apply makes the fields that are set in obj so on the server, creating the
// object if need be, and reads the result into obj. A UID in obj keeps it from
// being created. With a resource version in obj, an object that has changed since
// is refused as a conflict.
func (c *Client) Apply(ctx context.Context, obj Object, options ApplyOptions) error {
	if options.CreateOnly {
		obj.SetResourceVersion(neverVersion)
	}
	return c.apply(ctx, obj, "", options)
}

// ApplyStatus makes the fields of the status that are set in obj so on the
// server and reads the result into obj, which has to exist there.
func (c *Client) ApplyStatus(ctx context.Context, obj Object, options ApplyOptions) error {
	return c.apply(ctx, obj, "status", options)
}

func (c *Client) apply(ctx context.Context, obj Object, subresource string, options ApplyOptions) error {
	gvk, err := c.kindOf(obj)
	if err != nil {
		return err
	}
	obj.GetObjectKind().SetGroupVersionKind(gvk)
	body, err := json.Marshal(obj)
	if err != nil {
		return fmt.Errorf("encode %s %s: %w", gvk.Kind, obj.GetName(), err)
	}
	request, err := c.request(obj, http.MethodPatch, obj.GetNamespace(), obj.GetName())
	if err != nil {
		return err
	}
	if subresource != "" {
		request = request.SubResource(subresource)
	}
	return decodeFresh(applying(request, body, options).Do(ctx), obj)
}

func applying(request *rest.Request, body []byte, options ApplyOptions) *rest.Request {
	request = request.SetHeader("Content-Type", string(types.ApplyPatchType)).
		Param("fieldManager", options.Manager).
		Body(body)
	if options.Force {
		request = request.Param("force", "true")
	}
	if options.DryRun {
		request = request.Param("dryRun", metav1.DryRunAll)
	}
	return request
}

// MergePatch sends a JSON merge patch and reads the result into obj, which names
// the object. A resource version in the patch makes it fail if the object has
// changed since.
func (c *Client) MergePatch(ctx context.Context, obj Object, manager string, patch any) error {
	body, err := json.Marshal(patch)
	if err != nil {
		return fmt.Errorf("encode a patch of %s: %w", obj.GetName(), err)
	}
	request, err := c.request(obj, http.MethodPatch, obj.GetNamespace(), obj.GetName())
	if err != nil {
		return err
	}
	return decodeFresh(request.SetHeader("Content-Type", string(types.MergePatchType)).
		Param("fieldManager", manager).
		Body(body).
		Do(ctx), obj)
}

// UpdateSubresource replaces a subresource such as approval.
func (c *Client) UpdateSubresource(ctx context.Context, obj Object, subresource, manager string) error {
	request, err := c.request(obj, http.MethodPut, obj.GetNamespace(), obj.GetName())
	if err != nil {
		return err
	}
	return decodeFresh(request.SubResource(subresource).Param("fieldManager", manager).Body(obj).Do(ctx), obj)
}

// CreateSubresource posts to a subresource, such as a service account's token,
// and reads the answer into body. Like Create, it is not repeated.
func (c *Client) CreateSubresource(ctx context.Context, of Object, subresource string, body Object) error {
	request, err := c.request(of, http.MethodPost, of.GetNamespace(), of.GetName())
	if err != nil {
		return err
	}
	return decodeFresh(request.SubResource(subresource).Body(body).Do(ctx), body)
}

// decodeFresh decodes into a new object first, because decoding JSON into a
// used one would leave behind the map entries that the answer lacks.
func decodeFresh(result rest.Result, obj Object) error {
	fresh := obj.DeepCopyObject()
	clearObject(fresh)
	if err := result.Into(fresh); err != nil {
		return err
	}
	assign(obj, fresh)
	return nil
}

// Deletion is what became of a request to delete an object.
type Deletion struct {
	// Gone says that the object does not exist any more. Otherwise it waits for
	// its finalizers or contents.
	Gone bool
	// UID is that of the object that waits.
	UID types.UID
}

// Delete asks for an object's deletion and does not wait for it. With a UID only
// that very object is deleted, and not another of its name. An object that is
// not there is gone.
func (c *Client) Delete(ctx context.Context, obj Object, namespace, name string, uid types.UID) (Deletion, error) {
	return c.DeleteIf(ctx, obj, namespace, name, metav1.Preconditions{UID: &uid})
}

// DeleteIf is Delete with preconditions; empty ones are ignored. An
// object that does not meet them is left, with a conflict as the error.
func (c *Client) DeleteIf(ctx context.Context, obj Object, namespace, name string, conditions metav1.Preconditions) (Deletion, error) {
	request, err := c.request(obj, http.MethodDelete, namespace, name)
	if err != nil {
		return Deletion{}, err
	}
	policy := metav1.DeletePropagationBackground
	options := &metav1.DeleteOptions{PropagationPolicy: &policy}
	options.Kind, options.APIVersion = "DeleteOptions", "v1"
	if conditions.UID != nil && *conditions.UID == "" {
		conditions.UID = nil
	}
	if conditions != (metav1.Preconditions{}) {
		options.Preconditions = &conditions
	}
	body, err := json.Marshal(options)
	if err != nil {
		return Deletion{}, fmt.Errorf("encode the deletion of %s: %w", name, err)
	}
	result := request.SetHeader("Content-Type", runtime.ContentTypeJSON).Body(body).Do(ctx)
	if err := result.Error(); err != nil {
		if IsNotFound(err, name) {
			return Deletion{Gone: true}, nil
		}
		return Deletion{}, err
	}
	// An object that goes at once is answered with a Status, one that has to wait
	// with the object.
	raw, err := result.Raw()
	if err != nil {
		return Deletion{}, err
	}
	var answer metav1.PartialObjectMetadata
	if err := json.Unmarshal(raw, &answer); err != nil {
		return Deletion{}, fmt.Errorf("read the answer to the deletion of %s: %w", name, err)
	}
	return Deletion{Gone: answer.Kind == "Status", UID: answer.UID}, nil
}

// DeleteAndWait deletes an object and waits until it is gone. When ctx ends
// first, obj holds what was seen last.
func (c *Client) DeleteAndWait(ctx context.Context, obj Object, namespace, name string) error {
	deletion, err := c.Delete(ctx, obj, namespace, name, "")
	if err != nil || deletion.Gone {
		return err
	}
	return c.WaitGone(ctx, obj, namespace, name, deletion.UID)
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

// Create makes a new object and fails if it exists. It is not repeated when its
// answer is lost; prefer Apply.
func (c *Client) Create(ctx context.Context, obj Object) error {
	request, err := c.request(obj, http.MethodPost, obj.GetNamespace(), "")
	if err != nil {
		return err
	}
	return decodeFresh(request.Body(obj).Do(ctx), obj)
}

package memcluster

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	jsonpatch "github.com/evanphx/json-patch/v5"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"
)

var requestInfos = request.RequestInfoFactory{
	APIPrefixes: sets.NewString("api", "apis"), GrouplessAPIPrefixes: sets.NewString("api"),
}

// call is a request to a resource.
type call struct {
	*request.RequestInfo
	schema.GroupVersionResource
	served   resource
	metadata bool // whether the client wants objects' metadata alone
	http     *http.Request
}

// ServeHTTP answers as the API server of the cluster.
func (c *Cluster) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	answer, err := c.answer(w, r)
	switch status := apierrors.APIStatus(nil); {
	case err == nil && answer == nil: // a watch, which has answered
	case err == nil:
		reply(w, http.StatusOK, answer)
	case errors.As(err, &status):
		s := status.Status()
		s.Kind, s.APIVersion = "Status", "v1"
		reply(w, int(s.Code), marshal(s))
	default:
		reply(w, http.StatusInternalServerError, marshal(apierrors.NewInternalError(err).ErrStatus))
	}
}

func reply(w http.ResponseWriter, code int, body []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_, _ = w.Write(body)
}

func marshal(v any) []byte {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err) // only types of the API
	}
	return data
}

func (c *Cluster) answer(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	info, err := requestInfos.NewRequestInfo(r)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	if !info.IsResourceRequest {
		return c.discover(r.URL.Path)
	}
	in := call{
		RequestInfo: info,
		GroupVersionResource: schema.GroupVersionResource{
			Group: info.APIGroup, Version: info.APIVersion, Resource: info.Resource,
		},
		metadata: strings.Contains(r.Header.Get("Accept"), "as=PartialObjectMetadata"),
		http:     r,
	}
	c.mu.Lock()
	served, ok := c.resources[in.GroupVersionResource]
	c.mu.Unlock()
	if !ok {
		return nil, apierrors.NewNotFound(in.GroupResource(), in.Name)
	}
	if in.served = served; !served.namespaced {
		in.Namespace = ""
	}
	switch in.Verb {
	case "get":
		return in.one(c.get(in.GroupResource(), in.Namespace, in.Name))
	case "list":
		return c.list(in)
	case "watch":
		return nil, c.watch(w, in)
	case "create":
		return c.post(in)
	case "update", "patch":
		return c.put(in)
	case "delete":
		var options metav1.DeleteOptions
		_ = json.NewDecoder(r.Body).Decode(&options) // may be empty
		return in.one(c.delete(in.GroupVersionResource, in.Namespace, in.Name, options))
	}
	return nil, apierrors.NewMethodNotSupported(in.GroupResource(), in.Verb)
}

// discover answers what is no request to a resource.
func (c *Cluster) discover(path string) ([]byte, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch path {
	case "/livez", "/readyz", "/healthz":
		return []byte("ok"), nil
	case "/version":
		return []byte(`{"major":"1","minor":"37","gitVersion":"v1.37.1","platform":"linux/amd64"}`), nil
	case "/api":
		return marshal(metav1.APIVersions{
			TypeMeta: metav1.TypeMeta{Kind: "APIVersions", APIVersion: "v1"}, Versions: []string{"v1"},
		}), nil
	case "/apis":
		return marshal(metav1.APIGroupList{
			TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}, Groups: c.groups(),
		}), nil
	}
	parts := strings.Split(strings.Trim(path, "/"), "/")
	switch {
	case len(parts) == 2 && parts[0] == "api":
		return c.discoverVersion(schema.GroupVersion{Version: parts[1]})
	case len(parts) == 2 && parts[0] == "apis":
		for _, g := range c.groups() {
			if g.Name == parts[1] {
				g.TypeMeta = metav1.TypeMeta{Kind: "APIGroup", APIVersion: "v1"}
				return marshal(g), nil
			}
		}
	case len(parts) == 3 && parts[0] == "apis":
		return c.discoverVersion(schema.GroupVersion{Group: parts[1], Version: parts[2]})
	}
	return nil, apierrors.NewNotFound(schema.GroupResource{}, path)
}

func (c *Cluster) groups() (groups []metav1.APIGroup) {
	versions := map[string][]metav1.GroupVersionForDiscovery{}
	for gvr := range c.resources {
		v := metav1.GroupVersionForDiscovery{GroupVersion: gvr.GroupVersion().String(), Version: gvr.Version}
		if gvr.Group != "" && !slices.Contains(versions[gvr.Group], v) {
			versions[gvr.Group] = append(versions[gvr.Group], v)
		}
	}
	for name, all := range versions {
		slices.SortFunc(all, func(a, b metav1.GroupVersionForDiscovery) int { // the newest first
			return version.CompareKubeAwareVersionStrings(b.Version, a.Version)
		})
		groups = append(groups, metav1.APIGroup{Name: name, Versions: all, PreferredVersion: all[0]})
	}
	return groups
}

func (c *Cluster) discoverVersion(gv schema.GroupVersion) ([]byte, error) {
	list := metav1.APIResourceList{
		TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: gv.String(),
	}
	for gvr, r := range c.resources {
		if gvr.GroupVersion() == gv {
			list.APIResources = append(list.APIResources, metav1.APIResource{
				Name: gvr.Resource, SingularName: strings.ToLower(r.kind), Kind: r.kind, Namespaced: r.namespaced,
				Verbs: metav1.Verbs{"create", "delete", "get", "list", "patch", "update", "watch"},
			})
		}
	}
	if list.APIResources == nil {
		return nil, apierrors.NewNotFound(schema.GroupResource{}, gv.String())
	}
	return marshal(list), nil
}

// one is the answer with one object.
func (in call) one(s stored, err error) ([]byte, error) {
	if err == nil && in.metadata {
		return metadataOnly(s.json), nil
	}
	return s.json, err
}

func (c *Cluster) get(resource schema.GroupResource, namespace, name string) (stored, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s, ok := c.objects[key{resource, namespace, name}]
	if !ok {
		return stored{}, apierrors.NewNotFound(resource, name)
	}
	return s, nil
}

// selection is which objects a list or a watch is about.
type selection struct {
	key
	labels labels.Selector
}

func (in call) selection() (s selection, err error) {
	s.key = key{in.GroupResource(), in.Namespace, in.Name}
	query := in.http.URL.Query()
	if s.labels, err = labels.Parse(query.Get("labelSelector")); err != nil {
		return s, apierrors.NewBadRequest(err.Error())
	}
	f, err := fields.ParseSelector(query.Get("fieldSelector"))
	if err != nil {
		return s, apierrors.NewBadRequest(err.Error())
	}
	for _, r := range f.Requirements() {
		switch r.Field {
		case "metadata.name":
			s.name = r.Value
		case "metadata.namespace":
			s.namespace = r.Value
		default:
			return s, apierrors.NewBadRequest("field label not supported: " + r.Field)
		}
	}
	return s, nil
}

func (s selection) has(k key, data []byte) bool {
	switch {
	case k.GroupResource != s.GroupResource,
		s.namespace != "" && k.namespace != s.namespace,
		s.name != "" && k.name != s.name:
		return false
	case s.labels.Empty():
		return true
	}
	return data != nil && s.labels.Matches(labels.Set(decode(data).GetLabels()))
}

// objectsOf are the selected objects, and the version at which they are what they are.
func (c *Cluster) objectsOf(s selection) (found []stored, version int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for k, o := range c.objects {
		if s.has(k, o.json) {
			found = append(found, o)
		}
	}
	return found, c.version
}

func (c *Cluster) list(in call) ([]byte, error) {
	s, err := in.selection()
	if err != nil {
		return nil, err
	}
	found, version := c.objectsOf(s)
	kind, apiVersion := in.served.kind+"List", in.GroupVersion().String()
	if in.metadata {
		kind, apiVersion = "PartialObjectMetadataList", "meta.k8s.io/v1"
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, `{"kind":%q,"apiVersion":%q,"metadata":{"resourceVersion":"%d"},"items":[`,
		kind, apiVersion, version)
	for i, o := range found {
		if i > 0 {
			b.WriteByte(',')
		}
		data, _ := in.one(o, nil)
		b.Write(data)
	}
	b.WriteString("]}")
	return b.Bytes(), nil
}

// watch sends changes until the client has gone.
func (c *Cluster) watch(w http.ResponseWriter, in call) error {
	s, err := in.selection()
	if err != nil {
		return err
	}
	query := in.http.URL.Query()
	send := func(kind watch.EventType, data []byte) {
		if in.metadata && kind != watch.Error {
			data = metadataOnly(data)
		}
		_, _ = fmt.Fprintf(w, "{\"type\":%q,\"object\":%s}\n", kind, data)
	}
	flush := w.(http.Flusher).Flush
	since, _ := strconv.ParseInt(query.Get("resourceVersion"), 10, 64)
	w.Header().Set("Content-Type", "application/json")
	initial := query.Get("sendInitialEvents") == "true"
	if since == 0 || initial {
		var found []stored
		found, since = c.objectsOf(s)
		for _, o := range found {
			send(watch.Added, o.json)
		}
		if initial {
			mark := object(in.GroupVersion().String(), in.served.kind, "", "")
			mark.SetResourceVersion(strconv.FormatInt(since, 10))
			mark.SetAnnotations(map[string]string{metav1.InitialEventsAnnotationKey: "true"})
			send(watch.Bookmark, encode(mark))
		}
	}
	flush()
	var end <-chan time.Time
	if seconds, _ := strconv.Atoi(query.Get("timeoutSeconds")); seconds > 0 {
		timer := time.NewTimer(time.Duration(seconds) * time.Second)
		defer timer.Stop()
		end = timer.C
	}
	for {
		changes, more, lost := c.since(since)
		if lost {
			expired := apierrors.NewResourceExpired("changes since that version are not known any longer")
			send(watch.Error, marshal(expired.ErrStatus))
			return nil
		}
		for _, ch := range changes {
			since = ch.version
			had, has := ch.before != nil && s.has(ch.key, ch.before), ch.kind != watch.Deleted && s.has(ch.key, ch.json)
			switch {
			case has && had:
				send(watch.Modified, ch.json)
			case has:
				send(watch.Added, ch.json)
			case had:
				send(watch.Deleted, ch.json)
			}
		}
		if len(changes) > 0 {
			flush()
		}
		select {
		case <-more:
		case <-end:
			return nil
		case <-in.http.Context().Done():
			return nil
		}
	}
}

// since are the changes after a version, a channel that is closed at the next one, and
// whether some are no longer known.
func (c *Cluster) since(version int64) (changes []change, more <-chan struct{}, lost bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	first := len(c.changes)
	for first > 0 && c.changes[first-1].version > version {
		first--
	}
	lost = c.version-version > int64(len(c.changes)-first)
	return slices.Clone(c.changes[first:]), c.changed, lost
}

// body reads the object that a request brings.
func (in call) body() (*unstructured.Unstructured, error) {
	data, err := io.ReadAll(in.http.Body)
	o := &unstructured.Unstructured{}
	if in.http.Header.Get("Content-Type") == runtime.ContentTypeProtobuf && err == nil {
		var typed runtime.Object
		if typed, _, err = scheme.Codecs.UniversalDeserializer().Decode(data, nil, nil); err == nil {
			o.Object, err = runtime.DefaultUnstructuredConverter.ToUnstructured(typed)
		}
	} else if err == nil {
		err = o.UnmarshalJSON(data)
	}
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	if in.served.namespaced {
		o.SetNamespace(in.Namespace)
	}
	return o, nil
}

func (c *Cluster) post(in call) ([]byte, error) {
	o, err := in.body()
	if err != nil {
		return nil, err
	}
	switch {
	case in.Subresource == "token":
		o.Object["status"] = map[string]any{
			"token": string(newUID()), "expirationTimestamp": time.Now().Add(time.Hour).UTC().Format(time.RFC3339),
		}
		return encode(o), nil
	case strings.HasSuffix(in.RequestInfo.Resource, "reviews"):
		o.Object["status"] = map[string]any{"allowed": true}
		return encode(o), nil
	case in.http.URL.Query().Has("dryRun"):
		complete(o)
		return encode(o), nil
	}
	return in.one(c.create(in.GroupVersionResource, o))
}

// put answers an update or a patch.
func (c *Cluster) put(in call) ([]byte, error) {
	change, err := in.change()
	if err != nil {
		return nil, err
	}
	limited := func(old *unstructured.Unstructured) (*unstructured.Unstructured, error) {
		o, err := change(old.DeepCopy())
		if err != nil {
			return nil, err
		}
		// Without a subresource the status stays. An approval is in the status.
		from, into := old.Object, o.Object
		if in.Subresource != "" {
			from, into = o.Object, old.Object
			old.SetResourceVersion(o.GetResourceVersion())
		}
		if status, ok := from["status"]; ok {
			into["status"] = status
		} else {
			delete(into, "status")
		}
		return &unstructured.Unstructured{Object: into}, nil
	}
	s, err := c.modify(in.GroupVersionResource, in.Namespace, in.Name, limited)
	if apierrors.IsNotFound(err) && in.applies() {
		o, err := change(object(in.GroupVersion().String(), in.served.kind, in.Namespace, in.Name))
		if err != nil {
			return nil, err
		}
		return in.one(c.create(in.GroupVersionResource, o))
	}
	return in.one(s, err)
}

func (in call) applies() bool {
	return in.http.Header.Get("Content-Type") == string(types.ApplyYAMLPatchType)
}

// change is what the request makes of an object.
func (in call) change() (func(*unstructured.Unstructured) (*unstructured.Unstructured, error), error) {
	if in.Verb == "update" {
		o, err := in.body()
		return func(*unstructured.Unstructured) (*unstructured.Unstructured, error) { return o, nil }, err
	}
	data, err := io.ReadAll(in.http.Body)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	if in.http.Header.Get("Content-Type") == string(types.JSONPatchType) {
		return func(old *unstructured.Unstructured) (*unstructured.Unstructured, error) {
			patch, err := jsonpatch.DecodePatch(data)
			if err != nil {
				return nil, apierrors.NewBadRequest(err.Error())
			}
			patched, err := patch.Apply(encode(old))
			if err != nil {
				return nil, apierrors.NewBadRequest(err.Error())
			}
			return decode(patched), nil
		}, nil
	}
	if data, err = yaml.YAMLToJSON(data); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	patch := &unstructured.Unstructured{}
	if err := json.Unmarshal(data, &patch.Object); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	return func(old *unstructured.Unstructured) (*unstructured.Unstructured, error) {
		merge(old.Object, patch.Object)
		return decode(encode(old)), nil
	}, nil
}

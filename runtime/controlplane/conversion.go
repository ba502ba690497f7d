package controlplane

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensionsapiserver "k8s.io/apiextensions-apiserver/pkg/apiserver"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/util/webhook"
	"k8s.io/client-go/rest"
)

// Conversion converts custom resources between their versions in this process.
//
// A definition asks for it as it asks for a conversion webhook: it names the
// service. There is no such service and nothing is sent anywhere, so that every
// server that shares a store converts by itself. A definition that names another
// service or URL is converted there.
type Conversion struct {
	// Namespace and Service are the service that definitions name. They have to
	// accept version v1 of ConversionReview.
	Namespace, Service string
	// Convert converts one object, in JSON, to a version, such as
	// "example.org/v1". It keeps everything in the metadata but labels and
	// annotations. An error reaches the client whose request needed the conversion.
	// It is safe for concurrent use.
	Convert func(object []byte, apiVersion string) ([]byte, error)
}

// convertInProcess has the server for custom resources use the conversions.
func convertInProcess(extensions *apiextensionsapiserver.Config, conversions []Conversion) {
	if len(conversions) == 0 {
		return
	}
	extensions.ExtraConfig.ServiceResolver = conversionServices{next: extensions.ExtraConfig.ServiceResolver, conversions: conversions}
	outside := extensions.ExtraConfig.AuthResolverWrapper
	extensions.ExtraConfig.AuthResolverWrapper = func(next webhook.AuthenticationInfoResolver) webhook.AuthenticationInfoResolver {
		if outside != nil {
			next = outside(next)
		}
		return &webhook.AuthenticationInfoResolverDelegator{
			ClientConfigForFunc: next.ClientConfigFor,
			ClientConfigForServiceFunc: func(service, namespace string, port int) (*rest.Config, error) {
				for _, c := range conversions {
					if c.Service == service && c.Namespace == namespace {
						config := &rest.Config{}
						config.Wrap(func(http.RoundTripper) http.RoundTripper { return reviewer{c.Convert} })
						return config, nil
					}
				}
				return next.ClientConfigForService(service, namespace, port)
			},
		}
	}
}

// conversionServices resolves the services of conversions, which need not exist.
type conversionServices struct {
	next        webhook.ServiceResolver
	conversions []Conversion
}

// ResolveEndpoint returns a URL that is not used: a reviewer answers.
func (s conversionServices) ResolveEndpoint(namespace, name string, port int32) (*url.URL, error) {
	for _, c := range s.conversions {
		if c.Service == name && c.Namespace == namespace {
			return &url.URL{Scheme: "https", Host: name + "." + namespace + ".svc"}, nil
		}
	}
	return s.next.ResolveEndpoint(namespace, name, port)
}

// reviewer answers the requests of the API server's client for webhooks.
type reviewer struct {
	convert func(object []byte, apiVersion string) ([]byte, error)
}

// RoundTrip answers a ConversionReview.
func (r reviewer) RoundTrip(req *http.Request) (*http.Response, error) {
	body := []byte(nil)
	if req.Body != nil {
		defer func() { _ = req.Body.Close() }()
		var err error
		if body, err = io.ReadAll(req.Body); err != nil {
			return nil, err
		}
	}
	review := &apiextensionsv1.ConversionReview{}
	if err := json.Unmarshal(body, review); err != nil {
		return nil, fmt.Errorf("read the request for a conversion: %w", err)
	}
	if review.Request == nil || review.APIVersion != apiextensionsv1.SchemeGroupVersion.String() {
		return nil, fmt.Errorf("the request for a conversion is a %s %q, and not a ConversionReview of %s: give the definition conversionReviewVersions [v1]",
			review.APIVersion, review.Kind, apiextensionsv1.SchemeGroupVersion)
	}
	review.Response, review.Request = r.respond(review.Request), nil
	answer, err := json.Marshal(review)
	if err != nil {
		return nil, err
	}
	return &http.Response{
		Request: req, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		StatusCode: http.StatusOK, Status: strconv.Itoa(http.StatusOK) + " " + http.StatusText(http.StatusOK),
		Header:        http.Header{"Content-Type": {runtime.ContentTypeJSON}},
		Body:          io.NopCloser(bytes.NewReader(answer)),
		ContentLength: int64(len(answer)),
	}, nil
}

func (r reviewer) respond(request *apiextensionsv1.ConversionRequest) *apiextensionsv1.ConversionResponse {
	response := &apiextensionsv1.ConversionResponse{
		UID:              request.UID,
		Result:           metav1.Status{Status: metav1.StatusSuccess},
		ConvertedObjects: make([]runtime.RawExtension, len(request.Objects)),
	}
	for i, o := range request.Objects {
		converted, err := r.safely(o.Raw, request.DesiredAPIVersion)
		if err != nil {
			response.Result = metav1.Status{Status: metav1.StatusFailure, Message: err.Error()}
			response.ConvertedObjects = nil
			break
		}
		response.ConvertedObjects[i].Raw = converted
	}
	return response
}

// safely makes an error of a panic: what a client sends must not end the server.
func (r reviewer) safely(object []byte, apiVersion string) (converted []byte, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the conversion to %s panicked: %v", apiVersion, p)
		}
	}()
	return r.convert(object, apiVersion)
}

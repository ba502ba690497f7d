package hub

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/kube"
)

// With the hub down every resource fails to be read. One of them says why.
func TestThatTheHubIsAwayIsExplainedOnce(t *testing.T) {
	var diags diag.Diagnostics
	h := New(kube.Connection{Host: "https://hub"}, nil, "test")
	client := h.ReadClient(&diags)
	if client != h.ReadClient(&diags) {
		t.Error("each read has a client of its own")
	}
	if h.QueryClient(&diags) != client {
		t.Error("a data source waits longer than a refresh")
	}
	refused := fmt.Errorf("dial: %w", syscall.ECONNREFUSED)
	for i := range 5 {
		h.AddReadError(&diags, client, fmt.Sprintf("read placement %d", i), refused)
	}
	h.AddReadError(&diags, client, "read placement 5", apierrors.NewForbidden(schema.GroupResource{}, "x", nil))
	if h.ReadClient(&diags) != nil {
		t.Error("a refresh waits although the hub was away for another one")
	}
	if len(diags) != 2 || !strings.Contains(diags[0].Detail(), "connection refused") || !strings.Contains(diags[1].Detail(), "Let a cluster role") {
		t.Errorf("got %v", diags)
	}
	if h.WriteClient(&diags) == client || h.QueryClient(&diags) == client {
		t.Error("an apply does not wait for the hub")
	}
	nowhere, problems := New(kube.Connection{}, nil, "test"), diag.Diagnostics{}
	for range 5 {
		if nowhere.ReadClient(&problems) != nil {
			t.Error("a client came out of nothing")
		}
	}
	if len(problems) != 1 {
		t.Errorf("got %v", problems)
	}
}

func TestWhyARequestEnded(t *testing.T) {
	refused := fmt.Errorf("dial: %w", syscall.ECONNREFUSED)
	for name, test := range map[string]struct {
		err       error
		want, not string
	}{
		"interrupted":              {context.Canceled, "Terraform was interrupted.\n\nApply again to continue.", "Check that the server"},
		"interrupted while away":   {&kube.UnansweredError{Ended: context.Canceled, Last: refused}, "Terraform was interrupted.\n\nApply again", "connection refused"},
		"time up while away":       {&kube.UnansweredError{Ended: context.DeadlineExceeded, Last: refused}, "connection refused.\n\nCheck that the server runs", "took too long"},
		"time up without a reason": {context.DeadlineExceeded, "The server took too long", "Check that the server runs"},
		"program":                  {fmt.Errorf("get: %w", &kube.CredentialError{Program: "aws"}), `The program "aws" gets the credentials`, "Check that the server"},
	} {
		t.Run(name, func(t *testing.T) {
			got := Explain("https://hub", "do it", test.err)
			if !strings.Contains(got, test.want) || strings.Contains(got, test.not) {
				t.Errorf("got %q", got)
			}
		})
	}
	if !IsTimeout(&kube.UnansweredError{Ended: context.DeadlineExceeded, Last: errors.New("x")}) {
		t.Error("a time-out is none when the server was away")
	}
}

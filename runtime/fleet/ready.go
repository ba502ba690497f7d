package fleet

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// waitSaysReady follows a process's log from an offset until it says where its
// API server is, or the process has ended, which it then explains.
func waitSaysReady(ctx context.Context, log io.ReaderAt, from int64, ended <-chan error) (url string, err error) {
	tick := time.NewTicker(glance)
	defer tick.Stop()
	for {
		var exit error
		gone := false
		select {
		case <-ctx.Done():
			return "", context.Cause(ctx)
		case exit = <-ended:
			gone = true
		case <-tick.C:
		}
		text, err := io.ReadAll(io.NewSectionReader(log, from, 1<<62))
		if err != nil {
			return "", fmt.Errorf("read its log: %w", err)
		}
		if gone {
			return "", errors.New(whyEnded(text, exit))
		}
		if url, ok := readyLine(text); ok {
			return url, nil
		}
	}
}

// readyLine finds "hub ready URL kubeconfig PATH", or the same of a cluster.
func readyLine(log []byte) (url string, ok bool) {
	for line := range bytes.Lines(log) {
		words := strings.Fields(string(line))
		if bytes.HasSuffix(line, []byte("\n")) && len(words) >= 5 && words[1] == "ready" && words[3] == "kubeconfig" && (words[0] == "hub" || words[0] == "cluster") {
			return words[2], true
		}
	}
	return "", false
}

// whyEnded is the reason why a process ended, in one line: what it said last as
// its error, or else how it ended.
func whyEnded(log []byte, exit error) string {
	last := ""
	for line := range strings.Lines(string(log)) {
		line = strings.TrimSpace(line)
		if reason, ok := strings.CutPrefix(line, "Error: "); ok {
			return reason
		}
		if line != "" {
			last = line
		}
	}
	how := "it ended by itself"
	var exitErr *exec.ExitError
	if errors.As(exit, &exitErr) {
		how = "it ended with " + exitErr.Error()
	}
	if last == "" {
		return how
	}
	return how + ": " + last
}

// waitAnswers asks the API server of a kubeconfig whether it is ready until it
// is, and returns its URL. The file may be written only later.
func waitAnswers(ctx context.Context, kubeconfig string) (url string, err error) {
	tick := time.NewTicker(5 * glance)
	defer tick.Stop()
	for {
		url, err := answers(ctx, kubeconfig)
		if err == nil {
			return url, nil
		}
		select {
		case <-ctx.Done():
			return "", fmt.Errorf("%w: %w", context.Cause(ctx), err)
		case <-tick.C:
		}
	}
}

func answers(ctx context.Context, kubeconfig string) (url string, err error) {
	content, err := os.ReadFile(kubeconfig)
	if err != nil {
		return "", err
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(content)
	if err != nil {
		return "", fmt.Errorf("%s: %w", kubeconfig, err)
	}
	config.Timeout = 5 * time.Second
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return "", fmt.Errorf("%s: %w", kubeconfig, err)
	}
	defer client.CloseIdleConnections()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(config.Host, "/")+"/readyz", nil)
	if err != nil {
		return "", err
	}
	resp, err := client.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return "", fmt.Errorf("%s/readyz answers %s", config.Host, resp.Status)
	}
	return config.Host, nil
}

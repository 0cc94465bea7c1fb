//! Connections. As axum serves them, but a client that opens one and does not finish the head of a request holds it
//! only for a while: before the head nobody knows whose it is, and there are not many file handles.

use std::io;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::ServiceExt;

/// How long the head of a request may take, from the connection or the answer before it. Longer than clients and
/// proxies keep an idle connection, mostly, so that it is they who close it.
pub(super) const HEAD: Duration = Duration::from_secs(75);

/// After an error that is not one connection's, such as no file handle left.
const PAUSE: Duration = Duration::from_secs(1);

/// Serves until `stopping`; requests that run are finished. `head`: how long the head of a request may take.
pub(super) async fn listen(
    listener: TcpListener,
    router: Router,
    head: Duration,
    stopping: CancellationToken,
) {
    let graceful = GracefulShutdown::new();
    let connections = TaskTracker::new();
    let mut builder = Builder::new(TokioExecutor::new()).http1_only();
    builder.http1().timer(TokioTimer::new()).header_read_timeout(head);
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = stopping.cancelled() => break,
        };
        let stream = match accepted {
            Ok((stream, _)) => stream,
            Err(error) if is_of_one_connection(&error) => continue,
            Err(error) => {
                tracing::warn!(%error, "no connection can be accepted");
                tokio::time::sleep(PAUSE).await;
                continue;
            }
        };
        let service = router
            .clone()
            .map_request(|request: Request<hyper::body::Incoming>| request.map(Body::new));
        // Small answers go at once.
        let _ = stream.set_nodelay(true);
        // Without upgrades, of which there are none: with them hyper-util looks at the first bytes by itself, and waits
        // for them for ever.
        let connection = builder
            .serve_connection(TokioIo::new(stream), TowerToHyperService::new(service))
            .into_owned();
        let connection = graceful.watch(connection);
        connections.spawn(async move {
            if let Err(error) = connection.await {
                tracing::trace!(%error, "a connection ended early");
            }
        });
    }
    drop(listener);
    graceful.shutdown().await;
}

fn is_of_one_connection(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionRefused | io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset
    )
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use axum::routing::get;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpStream;

    use super::*;

    const SHORT: Duration = Duration::from_millis(100);

    const ASK: &[u8] = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n";

    async fn served(router: Router, stopping: &CancellationToken) -> TcpStream {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        TaskTracker::new().spawn(listen(listener, router, SHORT, stopping.clone()));
        TcpStream::connect(address).await.unwrap()
    }

    async fn read(stream: &mut TcpStream) -> String {
        let mut bytes = vec![0; 4096];
        let count = stream.read(&mut bytes).await.unwrap();
        String::from_utf8_lossy(&bytes[..count]).into_owned()
    }

    #[tokio::test]
    async fn a_connection_without_a_whole_head_is_closed() {
        for begun in [&b""[..], b"G", b"GET / HTTP/1.1\r\nHost: x\r\nX-Slow: "] {
            let router = Router::new().route("/", get(async || "hello"));
            let mut stream = served(router, &CancellationToken::new()).await;
            let opened = tokio::time::Instant::now();
            stream.write_all(begun).await.unwrap();
            let mut rest = Vec::new();
            // Whether it ends with a refusal, an end or a reset is the platform's business.
            let _ = stream.read_to_end(&mut rest).await;
            let held = opened.elapsed();
            assert!(held >= SHORT && held < 100 * SHORT, "{begun:?}: {held:?}");
        }
    }

    #[tokio::test]
    async fn an_answer_may_take_longer_than_a_head() {
        let slow = async || {
            tokio::time::sleep(4 * SHORT).await;
            "at last"
        };
        let mut stream = served(Router::new().route("/", get(slow)), &CancellationToken::new()).await;
        for _ in 0..2 {
            stream.write_all(ASK).await.unwrap();
            assert!(read(&mut stream).await.ends_with("at last"));
        }
    }

    #[tokio::test]
    async fn a_stop_lets_a_running_request_finish_and_takes_no_new_one() {
        let stopping = CancellationToken::new();
        let stop = stopping.clone();
        let slow = move || {
            let stop = stop.clone();
            async move {
                stop.cancel();
                tokio::time::sleep(2 * SHORT).await;
                "at last"
            }
        };
        let mut stream = served(Router::new().route("/", get(slow)), &stopping).await;
        let address = stream.peer_addr().unwrap();
        stream.write_all(ASK).await.unwrap();
        assert!(read(&mut stream).await.ends_with("at last"));
        assert_eq!(
            stream.read(&mut [0; 1]).await.unwrap(),
            0,
            "closed after the answer"
        );
        assert!(TcpStream::connect(address).await.is_err());
    }
}

import { QueryClient, QueryClientProvider } from '@tanstack/react-query';
import { RouterProvider } from '@tanstack/react-router';
import { StrictMode, useState } from 'react';
import { createRoot } from 'react-dom/client';
import { Refusal } from './api/client';
import { router } from './router';
import { Login, takeCode } from './session/Login';
import { logOut, useSession } from './session/session';
import './styles.css';
import { applyTheme } from './ui/theme';

applyTheme();

const client = new QueryClient({
  defaultOptions: {
    queries: {
      staleTime: 2_000,
      retry: (count, error) => count < 2 && !(error instanceof Refusal && error.status >= 400 && error.status < 500),
      // An unreachable engine comes back; until then the page keeps asking.
      refetchInterval: (query) => (query.state.error instanceof Refusal && query.state.error.status === 0 ? 5_000 : false),
    },
  },
});

client.getQueryCache().subscribe((event) => {
  const error = event.query.state.error;
  if (event.type === 'updated' && error instanceof Refusal && error.status === 401) logOut();
});

function App() {
  const session = useSession();
  const [code] = useState(takeCode);
  if (!session) return <Login code={code} />;
  return <RouterProvider key={session.current} router={router} />;
}

const root = document.getElementById('root');
if (root) {
  createRoot(root).render(
    <StrictMode>
      <QueryClientProvider client={client}>
        <App />
      </QueryClientProvider>
    </StrictMode>,
  );
}

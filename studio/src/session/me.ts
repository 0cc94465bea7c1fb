// What the caller may do, so that a screen offers nothing that the engine would refuse.
import { useQuery } from '@tanstack/react-query';
import { me } from '../api/queries';

export type Role = 'admin' | 'deploy' | 'start' | 'operate' | 'read' | 'work';

export function useMe() {
  return useQuery(me).data;
}

export function useMay(role: Role): boolean {
  const who = useMe();
  return who !== undefined && who.kind !== 'WORKER' && (who.roles.includes('admin') || who.roles.includes(role));
}
